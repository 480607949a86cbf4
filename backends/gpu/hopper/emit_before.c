/* emit_before.c: boxes that begin before their tensor. To store or add such a box by TMA is an illegal
 * instruction, wherever it ends (measured on an H200). The kernel's own arithmetic makes no window begin
 * there (bulk-store), but what memory or a parameter gives may. There the lane that sends a box looks at the
 * signs of its coordinates, and moves a box with a negative one itself, an element after the other:
 *
 *   const i32 box_at[2] = { .., .. };
 *   if ((box_at[0] | box_at[1]) >= 0) tma_store_2d(&map, buffer, box_at[0], box_at[1]);
 *   else
 *       for (u32 box_n = 0; box_n < 1024; box_n++) { ..; if (.. in range) stg_f16(..); } */
#include "backends/gpu/hopper/emit_bulk.h"

bool emit_may_begin_before(Emit *e, const Instr *store)
{
    MemParts m;
    if (!e->ranges) e->ranges = ranges_new(e->f);
    ir_mem_parts(store, &m);
    for (int a = 0; a < m.rank; a++)
        if (range_of(e->ranges, m.idx[a]).lo < 0 && kernel_box_is_given(e->f, &e->s->arena, m.idx[a]))
            return true;
    return false;
}

/* What the swizzle makes of the address of element n of the box in its buffer. */
static const char *place_in_buffer(Emit *e, const BulkStore *x, const char *buffer, const char *n)
{
    const int rows = x->b.row_bytes / 16 - 1; /* whose bits the swizzle takes: 7, 3, 1 */
    const char *at = str(e, "(%s) + %s * %d", buffer, n, dtype_bytes(x->type));
    line(e, "const u32 %s_from = %s;", x->box, at);
    return str(e, "%s_from ^ (%s_from >> 7 & %d) << 4", x->box, x->box, rows);
}

static void move_elements(Emit *e, const BulkStore *x, const char *buffer)
{
    const TensorMapDesc *t = &e->maps.data[x->map];
    const bool adds = ir_adds(x->store);
    const DType bits = adds ? x->type : bits_type(x->type);
    const char *inside = "", *place = slot_name(e, SLOT_DATA, x->w.param, 0, x->type), *n = tmp(e, "n");
    int64_t all = 1, below = 1;
    for (int q = 0; q < t->rank; q++) all *= t->box[q];
    directive(e, "#pragma unroll 1");
    line(e, "for (u32 %s = 0; %s < %lld; %s++) {", n, n, (long long)all, n);
    e->indent++;
    for (int q = 0; q < t->rank; q++) {
        const char *c = str(e, "%s_%d", n, q);
        const char *own = t->box[q] > 1 ? str(e, " + %s / %lld %% %u", n, (long long)below, t->box[q]) : "";
        below *= t->box[q];
        line(e, "const i64 %s = (i64)%s_at[%d]%s;", c, x->box, q, own);
        inside = both_conditions(
            e, inside, str(e, "(u64)%s < (u64)%s", c, window_extent(e, x->w.param, t->axes[q])));
        place = str(e, "%s + %s", place, window_times(e, c, x->w.param, t->axes[q]));
    }
    const char *from = place_in_buffer(e, x, buffer, n);
    line(e, "if (%s) %s(%s, %s(%s));", inside,
        use(e, str(e, adds ? "atomic_add_%s" : "stg_%s", dtype_name(x->type))), place,
        use(e, str(e, "lds_%s", dtype_name(bits))), from);
    end_block(e);
}

void emit_box_send(
    Emit *e, const BulkStore *x, const char *function, const char *buffer, const char *at, bool signs_matter)
{
    const TensorMapDesc *t = &e->maps.data[x->map];
    const char *map = slot_name(e, SLOT_TENSOR_MAP, x->w.param, x->map, x->type), *signs = "", *each = "";
    if (t->pixels || !signs_matter) {
        line(e, "%s(&%s, %s%s);", function, map, buffer, at);
        return;
    }
    for (int q = 0; q < t->rank; q++) {
        signs = str(e, "%s%s%s_at[%d]", signs, q ? " | " : "", x->box, q);
        each = str(e, "%s, %s_at[%d]", each, x->box, q);
    }
    line(e, "const i32 %s_at[%d] = {%s };", x->box, t->rank, at + 1);
    line(e, "if ((%s) >= 0) %s(&%s, %s%s);", signs, function, map, buffer, each);
    line(e, "else {    /* the box begins before the tensor, where TMA stores none */");
    e->indent++;
    move_elements(e, x, buffer);
    end_block(e);
}
