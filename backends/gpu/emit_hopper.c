/* emit_hopper.c: sm_90a: TMA rings, wgmma, warp roles. */
#include "backends/gpu/emit.h"

void emit_hopper(Emit *e, Instr *i)
{
    ir_fail(e->s, i->loc, "%s", op_info[i->op].name);
}
