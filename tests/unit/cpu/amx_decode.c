/* amx_decode.c: see amx_decode.h. All instructions have a VEX prefix of three bytes, map 2, and W 0. */
#include "amx_decode.h"
#include <string.h>

enum { NO_PREFIX, PREFIX_66, PREFIX_F3, PREFIX_F2 }; /* VEX.pp */
enum { IN_MEMORY, IN_ROWS, ONE_TILE, NO_OPERAND, THREE_TILES };

const char *const amx_op_names[N_AMX_OPS] = { "ldtilecfg", "sttilecfg", "tilerelease", "tilezero",
    "tileloadd", "tileloaddt1", "tilestored", "tdpbf16ps", "tdpfp16ps", "tdpbssd", "tdpbsud", "tdpbusd",
    "tdpbuud" };

static const struct {
    unsigned char prefix, opcode, operands, op;
} encodings[] = {
    { NO_PREFIX, 0x49, IN_MEMORY, AMX_LDTILECFG },
    { PREFIX_66, 0x49, IN_MEMORY, AMX_STTILECFG },
    { NO_PREFIX, 0x49, NO_OPERAND, AMX_TILERELEASE },
    { PREFIX_F2, 0x49, ONE_TILE, AMX_TILEZERO },
    { PREFIX_F2, 0x4b, IN_ROWS, AMX_TILELOADD },
    { PREFIX_66, 0x4b, IN_ROWS, AMX_TILELOADDT1 },
    { PREFIX_F3, 0x4b, IN_ROWS, AMX_TILESTORED },
    { PREFIX_F3, 0x5c, THREE_TILES, AMX_TDPBF16PS },
    { PREFIX_F2, 0x5c, THREE_TILES, AMX_TDPFP16PS },
    { PREFIX_F2, 0x5e, THREE_TILES, AMX_TDPBSSD },
    { PREFIX_F3, 0x5e, THREE_TILES, AMX_TDPBSUD },
    { PREFIX_66, 0x5e, THREE_TILES, AMX_TDPBUSD },
    { NO_PREFIX, 0x5e, THREE_TILES, AMX_TDPBUUD },
};

/* The three bytes of VEX, the opcode and ModRM. R, X, B and vvvv are kept inverted in VEX. */
typedef struct Fields {
    bool r, x, b, w, l;
    int map, vvvv, prefix, opcode, mod, reg, rm;
} Fields;

static Fields fields_of(const unsigned char *c)
{
    return (Fields){ .r = !(c[1] & 0x80),
        .x = !(c[1] & 0x40),
        .b = !(c[1] & 0x20),
        .map = c[1] & 31,
        .w = c[2] & 0x80,
        .vvvv = ~(c[2] >> 3) & 15,
        .l = c[2] & 4,
        .prefix = c[2] & 3,
        .opcode = c[3],
        .mod = c[4] >> 6,
        .reg = c[4] >> 3 & 7,
        .rm = c[4] & 7 };
}

/* ModRM's operand in memory, SIB and displacement behind it. False: there is no SIB where there has to be. */
static bool memory_operand(const unsigned char *c, const Fields *f, bool needs_sib, AmxInstruction *out)
{
    int at = 5, bytes = f->mod == 1 ? 1 : f->mod == 2 ? 4 : 0;
    out->index = AMX_NO_REGISTER;
    out->base = f->rm | f->b << 3;
    if (f->rm == 4) {
        int sib = c[at++], index = (sib >> 3 & 7) | f->x << 3;
        out->base = (sib & 7) | f->b << 3;
        out->scale = sib >> 6;
        if (index != 4) out->index = index;
        if ((sib & 7) == 5 && f->mod == 0) {
            out->base = AMX_NO_REGISTER;
            bytes = 4;
        }
    } else if (needs_sib) return false;
    else if (f->rm == 5 && f->mod == 0) {
        out->base = AMX_NEXT_INSTRUCTION;
        bytes = 4;
    }
    if (bytes == 1) out->displacement = (signed char)c[at];
    if (bytes == 4) memcpy(&out->displacement, c + at, 4);
    out->length = at + bytes;
    return true;
}

static int operands_of(const Fields *f)
{
    if (f->opcode == 0x4b) return IN_ROWS;
    if (f->opcode != 0x49) return THREE_TILES;
    return f->mod != 3 ? IN_MEMORY : f->prefix == PREFIX_F2 ? ONE_TILE : NO_OPERAND;
}

static const char *read_operands(const unsigned char *c, const Fields *f, int operands, AmxInstruction *out)
{
    out->length = 5;
    out->tile[0] = f->reg;
    if (operands != THREE_TILES && f->vvvv) return "VEX.vvvv is in use";
    if (operands == THREE_TILES) {
        if (f->mod != 3) return "a product with an operand in memory";
        if (f->r || f->b || f->vvvv > 7) return "a tile above tmm7";
        out->tile[1] = f->rm;
        out->tile[2] = f->vvvv;
    } else if (operands == NO_OPERAND || operands == ONE_TILE) {
        if (f->rm || (operands == NO_OPERAND && f->reg)) return "ModRM.rm is in use";
        if (f->r) return "a tile above tmm7";
    } else {
        if (operands == IN_ROWS && (f->r || f->mod == 3)) return "a tile above tmm7, or rows in a register";
        if (operands == IN_MEMORY && f->reg) return "ModRM.reg is in use";
        if (!memory_operand(c, f, operands == IN_ROWS, out)) return "rows of a tile without SIB";
    }
    return NULL;
}

bool amx_decode(const unsigned char *code, AmxInstruction *out, const char **fault)
{
    *out = (AmxInstruction){ .index = AMX_NO_REGISTER };
    *fault = NULL;
    if (code[0] != 0xc4 || (code[1] & 31) != 2) return false;
    Fields f = fields_of(code);
    int operands = operands_of(&f);
    for (unsigned k = 0; k < sizeof encodings / sizeof *encodings; k++) {
        if (encodings[k].prefix != f.prefix || encodings[k].opcode != f.opcode ||
            encodings[k].operands != operands)
            continue;
        out->op = encodings[k].op;
        *fault = f.w || f.l ? "VEX.W or VEX.L is set" : read_operands(code, &f, operands, out);
        return true;
    }
    return false;
}

bool vnni_decode(const unsigned char *code, VnniInstruction *out)
{
    *out = (VnniInstruction){ .right = AMX_NO_REGISTER };
    if (code[0] != 0xc4 || (code[1] & 31) != 2) return false;
    Fields f = fields_of(code);
    if (f.w || f.prefix != PREFIX_66 || f.opcode < 0x50 || f.opcode > 0x53) return false;
    out->words = f.opcode & 2;
    out->saturates = f.opcode & 1;
    out->bytes = f.l ? 32 : 16;
    out->to = f.reg | f.r << 3;
    out->left = f.vvvv;
    out->memory.length = 5;
    if (f.mod == 3) out->right = f.rm | f.b << 3;
    else memory_operand(code, &f, false, &out->memory);
    return true;
}
