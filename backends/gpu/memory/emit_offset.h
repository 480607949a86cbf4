/* emit_offset.h: byte offsets in shared memory that are linear over F2: the offset of place r for thread t is
 * T(t) ^ C(r). The emitter computes T once for each thread. It adds the bits of C that no T has, so that they
 * become the immediate offset of the access, and applies the other bits by exclusive or. */
#pragma once
#include "backends/gpu/emit.h"

/* The constants C of n places, each in two parts: `flip` has the bits that some thread has, `add` the others.
 */
typedef struct OffsetTable {
    int32_t *flip, *add;
    int n;
} OffsetTable;

void offset_table(Arena *, OffsetTable *, int n);
void offset_table_set(OffsetTable *, int k, uint32_t constant, uint32_t seen);
/* Whether some constant has a part that is applied by exclusive or. */
bool offset_table_flips(const OffsetTable *);
/* Splits the constants of places (i, k), at constants[i * nk + k], into a table of i and a table of k. False:
 * the constants are not the sum of one part for i and one for k. */
bool offset_tables(
    Arena *, const uint32_t *constants, uint32_t seen, int ni, int nk, OffsetTable *i, OffsetTable *k);

/* The offset of place r for thread t. */
typedef uint32_t PlaceFn(const void *user, int r, int t);
/* Whether the offsets of n places have the form T(t) ^ C(r). If so, `constants` receives C, and *seen the
 * bits that are set in T for some thread. known: they are known to have it (layout_offsets_linear). */
bool offsets_split(Arena *, PlaceFn *, const void *user, int n, int threads, bool known, uint32_t *constants,
    uint32_t *seen);

/* The same for the registers of a layout that are multiples of `every`. `own` receives an array of all
 * registers. */
bool linear_offsets(Emit *, const Layout *, const LayoutShared *, int every, uint32_t **own, uint32_t *seen);
/* The address of a register, computed from the thread's address `origin` and from the constants of n
 * registers, one of every `every`. k: the number of the register among the n. */
const char *linear_address(
    Emit *, const char *origin, const uint32_t *own, uint32_t seen, int n, int every, Index *k);
/* Whether the places of n accesses are computed where they are used, from one of them, which is pinned. They
 * depend on the thread alone: the vendor's compiler would compute them ahead of a loop, or once for several
 * products, and spill them. Registers hold few of them beside accumulators, more if other warps load the
 * tiles. */
bool emit_many_places(const Emit *, int n);
