/* options.c: which passes of the kernel IR the flag --skip-pass leaves out. Their names stand in passes.def
 * (KERNEL_PASS). */
#include "passes/kernel/kernel.h"
#include "passes/passes.h"

KernelOptions kernel_options_of(const PassOptions *o)
{
    bool schedule = pass_skipped(o, "tile-scheduler");
    return (KernelOptions){
        .schedule = o->schedule,
        .schedule_name = o->schedule_name,
        .no_async = pass_skipped(o, "multistage"),
        .no_roles = pass_skipped(o, "warp-specialization"),
        .no_overlap = pass_skipped(o, "software-pipelining"),
        .no_across = pass_skipped(o, "cross-tile-pipelining"),
        .no_turns = pass_skipped(o, "pingpong"),
        .no_bulk = pass_skipped(o, "bulk-store"),
        .no_cluster = pass_skipped(o, "cluster"),
        .no_split = pass_skipped(o, "split-k"),
        .no_multicast = pass_skipped(o, "multicast"),
        .no_shift = pass_skipped(o, "unaligned-vectors"),
        .no_erfc = pass_skipped(o, "erfc"),
        .no_reciprocal = pass_skipped(o, "reciprocal"),
        .no_mask_branch = pass_skipped(o, "mask-branch"),
        .no_ahead = pass_skipped(o, "fragment-prefetch"),
        .no_halo = pass_skipped(o, "merge-loads"),
        .no_fill = pass_skipped(o, "cp-async-producer"),
        .no_lent = pass_skipped(o, "epilogue-loads"),
        .no_early = pass_skipped(o, "hoist-loads"),
        .no_near = pass_skipped(o, "near"),
        .no_lazy = pass_skipped(o, "lazy-rescale"),
        .no_promote = pass_skipped(o, "promote"),
        .no_swizzle = pass_skipped(o, "swizzle"),
        .no_persistent = schedule,
        .no_tickets = schedule,
        .no_order = schedule,
    };
}
