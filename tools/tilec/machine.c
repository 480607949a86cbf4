/* machine.c: see machine.h. */
#include "tools/tilec/machine.h"
#include "tools/aot/plan.h"
#include "tools/tilec/embed.h"

static const ObjectLevel x86_levels[] = {
    { LEVEL_AMX, "x86-64-v4", "+avx512vnni,+amx-tile,+amx-bf16,+amx-int8", "amx", true },
    { LEVEL_V4_DOT, "x86-64-v4", "+avx512vnni,+avx512bf16", "v4dot", true },
    { LEVEL_V4, "x86-64-v4", NULL, "v4", false },
    { LEVEL_V3, "x86-64-v3", NULL, "v3", false },
};
static const ObjectLevel arm_levels[] = {
    { LEVEL_BF16, "generic", "+dotprod,+i8mm,+bf16", "bf16", true },
    { LEVEL_DOT, "generic", "+dotprod", "dot", true },
    { LEVEL_ANY, "generic", NULL, "any", false },
};
enum {
    N_X86_LEVELS = sizeof x86_levels / sizeof *x86_levels,
    N_ARM_LEVELS = sizeof arm_levels / sizeof *arm_levels
};

#if defined(__x86_64__)
static const ObjectMachine own = { launch_object, launch_object_end, ffi_entry_object, ffi_entry_object_end,
    x86_levels, N_X86_LEVELS };
#else
static const ObjectMachine own = { launch_object, launch_object_end, ffi_entry_object, ffi_entry_object_end,
    arm_levels, N_ARM_LEVELS };
#endif
static const ObjectMachine arm = { launch_object_aarch64, launch_object_aarch64_end, ffi_entry_object_aarch64,
    ffi_entry_object_aarch64_end, arm_levels, N_ARM_LEVELS };

const ObjectMachine *object_machine(const Target *t) { return t->triple ? &arm : &own; }

const ObjectLevel *object_level(const Target *t, int level)
{
    const ObjectLevel *l = object_machine(t)->levels;
    while (l->level != level) l++;
    return l;
}

static bool has_narrow_products(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        DType d = i->op == OP_MMA ? ir_operand(i, 0)->type->dtype : DT_F32;
        if (d == DT_BF16 || d == DT_I8 || d == DT_U8) return true;
        for (int k = 0; k < i->n_blocks; k++)
            if (has_narrow_products(i->blocks[k])) return true;
    }
    return false;
}

bool object_level_serves(const ObjectLevel *l, const Func *f)
{ return !l->products || has_narrow_products(f->body); }
