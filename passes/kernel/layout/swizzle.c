/* swizzle.c: how a tile goes from one layout to another (`convert`): by registers, by exchange between lanes,
 * or through shared memory, whose staging tile is swizzled so that neither writing nor reading it meets a
 * bank conflict (ir/layout_convert.c plans all three). The emitter asks when it writes the conversion.
 *
 * Left out, the staging tile is row-major, as code without this pass would have it. */
#include "passes/kernel/kernel.h"

const LayoutConvert *kernel_conversion(
    Arena *a, const KernelPlan *p, const Layout *src, const Layout *dst, int bytes, bool lanes_first)
{
    const LayoutConvert *way = lanes_first ? layout_convert_within(a, src, dst, bytes) : NULL;
    if (!way) way = layout_convert(a, src, dst, bytes);
    return way && kernel_skips(p, PASS_SWIZZLE) ? layout_convert_plain(a, way, bytes) : way;
}
