/* making.h: the state of one variant while it is compiled, shared by variant.c, which goes from a launch's
 * key to code on the device, and compile_again.c, which compiles again for the sake of registers. */
#pragma once
#include "runtime/choice/chooser.h"

enum { COMPILE_FEW_BYTES = 64 }; /* that a thread spills, for which nothing is compiled again */

/* The data for making one variant, in the session's arena. */
typedef struct Making {
    tile_kernel *k;
    Variant *v;
    Session *s;
    const LaunchArgs *launch; /* that asked for it first */
    CompileOptions options;
    const FrontBinding *bindings;
    size_t n_bindings;
    LaunchFacts facts;
    const char *title;
    CacheKey cache_key;
    const Choice *chosen;      /* NULL: the configuration is given */
    bool programs;             /* `chosen` says of warps and CTAs alone (choose_programs.c) */
    bool cut_short;            /* the search for those lacked memory: the disk cache keeps nothing */
    bool settled;              /* it was compared with those that may be taken instead */
    double vendor_ms, load_ms; /* the time taken by the vendor's compiler, and by the driver */
} Making;

/* variant.c: sets cache_key, the key in the disk cache, from the bindings. */
void making_key(Making *);

/* compile_again.c: the CTAs on a multiprocessor to compile for instead; 0: it stays. */
int compile_next_ctas(const Target *, int threads, int spilled, int ctas);
/* The estimate of a configuration of which a thread spills so many bytes; of_byte: as a SearchOther has it.
 */
double compile_with_spills(double ns, double of_byte, int bytes);
static inline CompileJob making_job(const Making *m, Ast *ast, const CompileOptions *o)
{ return (CompileJob){ m->s, ast, m->k->name, m->bindings, m->n_bindings, &m->facts, o }; }
/* compiled: the output of the vendor's compiler; text: its input. Both are replaced if code compiled again is
 * better. False after diagnostics. */
bool compile_for_fewer(Making *, Ast *, Compiled *compiled, Compiled *text);
bool compile_for_more(Making *, Ast *, Compiled *compiled, Compiled *text);
bool compile_for_other(Making *, Ast *, Compiled *compiled, Compiled *text);
/* Chooses warps and CTAs by the launch. */
void making_programs(Making *);
/* Takes the configuration that an earlier process took instead of the chosen one. */
void making_recall(Making *);
/* Whether this code spills so much that other configurations should be compared with it. */
bool making_is_open(const Making *, const Compiled *);
