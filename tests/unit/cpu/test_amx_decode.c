/* test_amx_decode.c: the decoder of AMX's instructions, on bytes of GNU's assembler. */
#include "amx_machine.h"
#include <stdio.h>
#include <string.h>

static int failures, checks;

static void expect(bool ok, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s\n", what);
    failures++;
}

static void test_decoder(void)
{
    static const struct {
        unsigned char code[10];
        AmxInstruction want;
    } cases[] = {
        { { 0xc4, 0xe2, 0x7b, 0x4b, 0x6c, 0x0c, 0x40 }, { AMX_TILELOADD, 7, { 5 }, 4, 1, 0, 64 } },
        { { 0xc4, 0x82, 0x79, 0x4b, 0x7c, 0xfd, 0x80 }, { AMX_TILELOADDT1, 7, { 7 }, 13, 15, 3, -128 } },
        { { 0xc4, 0xc2, 0x7a, 0x4b, 0x94, 0x6c, 0x45, 0x23, 0x01, 0x00 },
            { AMX_TILESTORED, 10, { 2 }, 12, 5, 1, 74565 } },
        { { 0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x95, 0x40, 0x00, 0x00, 0x00 },
            { AMX_TILELOADD, 10, { 1 }, AMX_NO_REGISTER, 2, 2, 64 } },
        { { 0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x24 }, { AMX_TILELOADD, 6, { 1 }, 4, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x78, 0x49, 0x05, 0x00, 0x01, 0x00, 0x00 },
            { AMX_LDTILECFG, 9, { 0 }, AMX_NEXT_INSTRUCTION, AMX_NO_REGISTER, 0, 256 } },
        { { 0xc4, 0xe2, 0x78, 0x49, 0x04, 0x24 }, { AMX_LDTILECFG, 6, { 0 }, 4, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x79, 0x49, 0x45, 0xc0 }, { AMX_STTILECFG, 6, { 0 }, 5, AMX_NO_REGISTER, 0, -64 } },
        { { 0xc4, 0x82, 0x79, 0x49, 0x04, 0x88 }, { AMX_STTILECFG, 6, { 0 }, 8, 9, 2, 0 } },
        { { 0xc4, 0xe2, 0x78, 0x49, 0xc0 }, { AMX_TILERELEASE, 5, { 0 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x7b, 0x49, 0xf0 }, { AMX_TILEZERO, 5, { 6 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x5a, 0x5c, 0xc1 }, { AMX_TDPBF16PS, 5, { 0, 1, 4 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x43, 0x5c, 0xee }, { AMX_TDPFP16PS, 5, { 5, 6, 7 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x73, 0x5e, 0xda }, { AMX_TDPBSSD, 5, { 3, 2, 1 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x72, 0x5e, 0xda }, { AMX_TDPBSUD, 5, { 3, 2, 1 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x71, 0x5e, 0xda }, { AMX_TDPBUSD, 5, { 3, 2, 1 }, 0, AMX_NO_REGISTER, 0, 0 } },
        { { 0xc4, 0xe2, 0x70, 0x5e, 0xda }, { AMX_TDPBUUD, 5, { 3, 2, 1 }, 0, AMX_NO_REGISTER, 0, 0 } },
    };
    for (unsigned k = 0; k < sizeof cases / sizeof *cases; k++) {
        AmxInstruction i;
        const char *fault;
        bool ok = amx_decode(cases[k].code, &i, &fault) && !fault;
        expect(ok && !memcmp(&i, &cases[k].want, sizeof i), amx_op_names[cases[k].want.op]);
    }
    static const unsigned char above[] = { 0xc4, 0x62, 0x7b, 0x4b, 0x1c, 0x08 },
                               wide[] = { 0xc4, 0xe2, 0xfb, 0x4b, 0x1c, 0x08 },
                               other[] = { 0xc4, 0xe2, 0x71, 0x50, 0xc2, 0 };
    AmxInstruction i;
    const char *fault;
    expect(amx_decode(above, &i, &fault) && fault, "a tile above tmm7");
    expect(amx_decode(wide, &i, &fault) && fault, "VEX.W");
    expect(!amx_decode(other, &i, &fault) && !fault, "vpdpbusd is no instruction of AMX");
}

int main(void)
{
    test_decoder();
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
