/* machine.c: see machine.h. */
#include "tools/tilec/compile/machine.h"
#include "ir/target/cpu_level.h"
#include "tools/tilec/compile/embed.h"

/* The rows of one machine for which objects have code. */
#define ROW_ALWAYS(LEVEL, NAME, CPU, FEATURES) \
    { \
        LEVEL, CPU, FEATURES, NAME \
        , false \
    } \
    ,
#define ROW_PRODUCTS(LEVEL, NAME, CPU, FEATURES) \
    { \
        LEVEL, CPU, FEATURES, NAME \
        , true \
    } \
    ,
#define ROW_NEVER(LEVEL, NAME, CPU, FEATURES)
#define ROW(LEVEL, NAME, CPU, FEATURES, OBJECTS) ROW_##OBJECTS(LEVEL, NAME, CPU, FEATURES)
#define NO_ROW(LEVEL, NAME, CPU, FEATURES, OBJECTS)
static const ObjectLevel x86_levels[] = {
#define CPU_LEVEL_X86 ROW
#define CPU_LEVEL_ARM NO_ROW
#include "ir/target/cpu_levels.def"
#undef CPU_LEVEL_X86
#undef CPU_LEVEL_ARM
};
static const ObjectLevel arm_levels[] = {
#define CPU_LEVEL_X86 NO_ROW
#define CPU_LEVEL_ARM ROW
#include "ir/target/cpu_levels.def"
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
