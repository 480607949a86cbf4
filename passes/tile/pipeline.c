/* pipeline.c: the order of the passes of the tile IR.
 *
 * The order, and why:
 *   inline, check, specialize        one function, and every fact of the launch a constant, before anything
 *                                    is derived
 *   fold, cse, dce                   the canonical form that the others look for
 *   accumulate                       behind fold, which makes zeros constants; before what looks at sums of
 *                                    products
 *   flatten                          before collapse, pack and parts, which know rows by tiles of one axis
 *   collapse                         before pack and parts, which divide axes
 *   pack                             programs as the source has them: before anything is moved, and before
 *                                    masks and widths are settled
 *   paired-programs                  behind pack, which takes programs without products, and accumulate,
 *                                    whose sums can become one; before licm, which moves loads of operands
 *   parts                            behind pack, which makes tiles larger; before exp2, which knows loops
 *   repeated-rows                    behind pack, which turns loads of windows into gathers; before licm,
 *                                    which moves its loads out of loops that do not change them
 *   batches                          behind pack and accumulate, which look at single products; before
 *                                    sliced-loads, which takes apart the tiles of which products are slices
 *   sliced-loads                     behind cse, so that a slice is there once; before licm and
 *                                    load-order, which see its loads
 *   constant-matrices                behind pack, which makes more records of a program; behind sliced-loads,
 *                                    because its slices are of records; before contract
 *   load-order, exp2                 need the source's shape: products and permutes not yet split over
 *                                    two loops
 *   transpose-products               before load-order, which makes its permutations free
 *   pad-products                     behind load-order, so that loads are operands; before divisibility,
 *                                    which tells masks of windows
 *   licm                             before mask-peel, so that invariant values are not copied with the
 *                                    loop
 *   factors                          behind licm, which moves what factors are made of out of loops; before
 *                                    mask-peel, which makes two loops of one
 *   mask-peel, divisibility          the first splits loops, the second proves what is left without a
 *                                    split
 *   fold ... dce again               selects and conditions that became constant
 *   edge-program                     as soon as masks are settled
 *   empty-loops                      as soon as masks are settled, so that none is added but where it is
 *                                    free
 *   grouped-steps                    as soon as masks are settled, so that steps without them are known
 *   unroll                           after masks are settled, so that it sees the loops that stay
 *   approx ... latency               mark, and choose the last roundings; speculate knows the forms of
 *                                    contract
 *   remap, narrow                    last: index arithmetic is complete, and then gets its width
 *   half-integers                    behind what makes or removes arithmetic of tiles */
#include "passes/pass.h"

typedef bool PassFn(PassContext *, Module *);
static PassFn *const pass_fn[TILE_PASS_COUNT] = {
#define PASS(ID, name, function, level, on, keeps, doc) function,
#include "passes/passes.def"
};

static const PassId pipeline[] = {
    PASS_INLINE,
    PASS_CHECK,
    PASS_SPECIALIZE,
    PASS_FOLD,
    PASS_CSE,
    PASS_DCE,
    PASS_ACCUMULATE,
    PASS_FLATTEN,
    PASS_COLLAPSE,
    PASS_PACK,
    PASS_PAIRED_PROGRAMS,
    PASS_PARTS,
    PASS_REPEATED_ROWS,
    PASS_BATCHES,
    PASS_SLICED_LOADS,
    PASS_CONSTANT_MATRICES,
    PASS_LICM,
    PASS_FACTORS,
    PASS_TRANSPOSE_PRODUCTS,
    PASS_LOAD_ORDER,
    PASS_PAD_PRODUCTS,
    PASS_MASK_TRIM,
    PASS_EXP2,
    PASS_FOLD,
    PASS_CSE,
    PASS_LICM,
    PASS_DCE,
    PASS_MASK_PEEL,
    PASS_DIVISIBILITY,
    PASS_FOLD,
    PASS_CSE,
    PASS_LICM,
    PASS_DCE,
    PASS_EDGE_PROGRAM,
    PASS_EMPTY_LOOPS,
    PASS_GROUPED_STEPS,
    PASS_UNROLL,
    PASS_APPROX,
    PASS_CONTRACT,
    PASS_SPECULATE,
    PASS_LATENCY,
    PASS_REMAP,
    PASS_NARROW,
    PASS_HALF_INTEGERS,
    PASS_FOLD,
    PASS_CSE,
    PASS_DCE,
};

PassOptions pass_options_default(const Target *target)
{ return (PassOptions){ .target = target, .opt_level = 2 }; }

static bool call(void *user, PassRunner *r, PassId id)
{
    Module *m = user;
    PassContext c = { m->session, r->options, r->scratch, r->report, id };
    return pass_fn[id](&c, m);
}

static bool wanted(const PassRunner *r, PassId id)
{
    const PassOptions *o = r->options;
    if (id == PASS_APPROX && (o->approx || o->ftz)) return !pass_in(&r->skip, id);
    return !pass_runner_skips(r, id) && (o->opt_level >= pass_info[id].level || pass_in(&r->with, id));
}

/* The passes of options.passes, in its order. */
static void run_list(PassRunner *r)
{
    const char *p = r->options->passes;
    for (size_t len; (len = strcspn(p, ", ")) || *p; p += len + (p[len] != 0)) {
        PassId id;
        if (len && pass_find(p, len, &id) && !pass_in(&r->skip, id)) pass_runner_call(r, id, call, r->module);
    }
}

bool passes_run(Module *m, const PassOptions *o, PassReport *report)
{
    PassReport own = { 0 };
    PassRunner r;
    if (!pass_options_check(m->session, o)) return false;
    pass_runner_init(&r, m, o, report ? report : &own);
    if (o->passes) run_list(&r);
    for (size_t i = 0; !o->passes && i < sizeof pipeline / sizeof *pipeline; i++)
        if (wanted(&r, pipeline[i])) pass_runner_call(&r, pipeline[i], call, m);
    return !r.failed;
}
