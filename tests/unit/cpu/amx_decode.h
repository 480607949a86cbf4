/* amx_decode.h: the instructions of AMX and of AVX-VNNI as bytes, by the tables of Intel's Software
 * Developer's Manual. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum AmxOp {
    AMX_LDTILECFG,
    AMX_STTILECFG,
    AMX_TILERELEASE,
    AMX_TILEZERO,
    AMX_TILELOADD,
    AMX_TILELOADDT1,
    AMX_TILESTORED,
    AMX_TDPBF16PS,
    AMX_TDPFP16PS,
    AMX_TDPBSSD,
    AMX_TDPBSUD,
    AMX_TDPBUSD,
    AMX_TDPBUUD,
    N_AMX_OPS
} AmxOp;

extern const char *const amx_op_names[N_AMX_OPS];

enum { AMX_NO_REGISTER = -1, AMX_NEXT_INSTRUCTION = -2 };

/* `tile`: the destination and both sources of a product; else one tile in the first place. Memory is at
 * base + displacement, and its rows index << scale apart; for a configuration it is at base + displacement +
 * (index << scale). Registers are numbered as in encodings (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, ...). */
typedef struct AmxInstruction {
    AmxOp op;
    int length;
    int tile[3];
    int base, index, scale;
    int32_t displacement;
} AmxInstruction;

/* False: the bytes are no instruction of AMX. If they are one that no processor accepts, `*fault` says why.
 */
bool amx_decode(const unsigned char *code, AmxInstruction *out, const char **fault);

/* VPDPBUSD, VPDPBUSDS, VPDPWSSD and VPDPWSSDS with VEX, on vectors of `bytes`. `right` is in memory at
 * base + displacement + (index << scale) if it is no register. */
typedef struct VnniInstruction {
    bool words, saturates;
    int bytes, to, left, right;
    AmxInstruction memory; /* with the length */
} VnniInstruction;

bool vnni_decode(const unsigned char *code, VnniInstruction *out);
