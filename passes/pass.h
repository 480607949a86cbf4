/* pass.h: what the files of this folder share; not for others. */
#pragma once
#include "passes/passes.h"

typedef struct PassContext {
    Session *session;
    const PassOptions *options;
    Arena *scratch;     /* emptied after the pass */
    PassReport *report; /* never NULL */
    PassId pass;
} PassContext;

#define PASS(ID, name, function, level, on, doc) bool function(PassContext *, Module *);
#include "passes/passes.def"
#undef PASS

/* Adds to a statistic of the running pass. `what` must live as long as the session (a literal). */
void pass_count(PassContext *, const char *what, int64_t n);

/* The blocks a function owns: body, grid, remap, extents; absent ones are left out. Returns their number. */
enum { FUNC_ROOTS = 4 };
int func_roots(const Func *, Block *out[FUNC_ROOTS]);
/* fn for every function of the module; true if any call was. */
bool pass_each_func(PassContext *, Module *, bool (*fn)(PassContext *, Func *));

/* Old value -> new; erases the instruction `v` came from when nothing else of it is used. */
void replace_value(Value *v, Value *by);
/* An empty block's or a loop body's instructions, without terminator, go before `at`. */
void splice_before(Instr *at, Block *from);
bool is_tile(const Value *);
bool is_loop(const Instr *);
bool same_attrs(const Instr *, const Instr *);
/* The constant `v` of type `t` (integers, bools; floats), splatted for a tile. */
Value *build_int(Builder *, const Type *t, int64_t v);
Value *build_float(Builder *, const Type *t, double v);
/* A read whose result depends on nothing but its operands: a load or gather from an `in` parameter. */
bool is_constant_read(const Instr *);
/* The last token that stands for a write (or the chain's start): reads hand tokens on. */
Value *last_write(Value *token);
