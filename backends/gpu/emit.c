/* emit.c: kernel IR to C for CUDA and HIP: operations by kind, and the frame around a kernel. Names and
 * expressions are in emit_names.c, emit_scalar.c, control flow in emit_loop.c. Tiles, memory and matrix
 * products have files of their own (emit_tile.c, emit_window.c, emit_load.c, emit_store.c, emit_indexed.c,
 * emit_shared.c, emit_mma.c, emit_hopper.c, emit_ring.c, emit_roles.c). The functions that a kernel calls
 * come from the target's prelude (backends/cuda/prelude.c, backends/hip/prelude.c). */
#include "backends/gpu/emit_param.h"
#include "backends/gpu/gpu.h"
#include "backends/gpu/memory/emit_indexed.h"
#include "backends/gpu/memory/emit_kept.h"
#include "backends/gpu/memory/emit_shift.h"
#include "backends/gpu/hopper/emit_cluster.h"
#include "backends/gpu/hopper/emit_roles.h"
#include "backends/gpu/elements/emit_run.h"

/* The line of the program that the next statements implement, as a comment on its own line. "" if the line
 * tells too little, or would end the comment. */
static const char *quote(Emit *e, const Source *src, uint32_t at)
{
    while (at > 0 && src->text[at - 1] != '\n') at--;
    while (src->text[at] == ' ' || src->text[at] == '\t') at++;
    size_t n = strcspn(src->text + at, "\n");
    for (size_t k = 0; k + 1 < n; k++)
        if (src->text[at + k] == '/' && (src->text[at + k + 1] == '/' || src->text[at + k + 1] == '*')) n = k;
    while (n && (src->text[at + n - 1] == ' ' || src->text[at + n - 1] == '\r')) n--;
    for (size_t k = 0; k + 1 < n; k++)
        if (src->text[at + k] == '*' && src->text[at + k + 1] == '/') return "";
    if (!strncmp(src->text + at, "kernel ", 7))
        return str(e, "%*s/* which programs, in which order */\n", 4 * e->indent, "");
    if (n <= 2) return "";
    return str(e, "%*s/* %.*s */\n", 4 * e->indent, "", (int)(n > 120 ? 120 : n), src->text + at);
}

/* Adds the position of the next statements in the source. The comment comes before #line, which counts the
 * lines after it. */
static void source_line(Emit *e, const Instr *i)
{
    const Source *src = diag_source(e->s, i->loc.file);
    int ln, col;
    if (!src || e->measure) return;
    diag_position(e->s, i->loc, &ln, &col);
    if (ln == e->line && i->loc.file == e->file) return;
    e->line = ln;
    e->file = i->loc.file;
    bool quoted =
        i->op != OP_SHARED_ALLOC && i->op != OP_RING && !kernel_is_roles(i->op) && i->loc.begin < src->len;
    add_position(e, str(e, "%s#line %d \"%s\"", quoted ? quote(e, src, i->loc.begin) : "", ln, src->name));
}

/* A scalar. */
void emit_elementwise(Emit *e, Instr *i)
{
    if (ir_result(i)->type->kind != TYPE_SCALAR)
        ir_fail(e->s, i->loc, "the GPU emitter computes %s of tiles in loops alone", op_info[i->op].name);
    const char *args[4], *n = name_of(e, ir_result(i));
    for (int k = 0; k < i->n_operands; k++) args[k] = name_of(e, ir_operand(i, k));
    /* A division of parameters contains a branch and waits for nothing, so it stays where it is. If the
     * compiler moved it between the instructions of a product, ptxas would divide the product in two (its
     * warning C7519). */
    bool stay = i->op == OP_DIV && ir_result(i)->type->dtype == DT_F32 && e->role == 1 &&
                !ir_operand(i, 0)->def && !ir_operand(i, 1)->def;
    if (!stay) {
        const char *carried = emit_counter(e, i);
        declare(e, ir_result(i), carried ? carried : op_expr(e, i, args));
        return;
    }
    line(e, "%s %s = %s;", ctype(ir_result(i)->type->dtype), n, op_expr(e, i, args));
    line(e, "%s(%s);", use(e, "pin_float"), n);
    e->storage[ir_result(i)->id] = n;
}

static void emit_control(Emit *e, Instr *i)
{
    switch (op_as_control(i->op)) {
    case CONTROL_FOR: emit_for(e, i); return;
    case CONTROL_WHILE: emit_while(e, i); return;
    case CONTROL_IF:
        if (!emit_guarded_loads(e, i) && !emit_guarded_copies(e, i)) emit_if(e, i);
        return;
    }
}

static void emit_memory(Emit *e, Instr *i)
{
    switch (op_as_memory(i->op)) {
    case MEMORY_LOAD: emit_load(e, i); return;
    case MEMORY_STORE:
        if (!emit_bulk_store(e, i)) emit_store(e, i);
        return;
    case MEMORY_GATHER:
    case MEMORY_SCATTER:
    case MEMORY_ATOMIC_RMW:
    case MEMORY_ATOMIC_CAS: emit_indexed(e, i); return;
    }
}

static void emit_shape(Emit *e, Instr *i)
{
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: /* virtual: each user evaluates the value */
    case SHAPE_ARANGE:
    case SHAPE_BROADCAST: return;
    case SHAPE_RESHAPE:
    case SHAPE_PERMUTE:
    case SHAPE_CONCAT:
    case SHAPE_SLICE: emit_by_position(e, i); return;
    }
}

static void emit_registers(Emit *e, Instr *i)
{
    if (i->op == OP_CONVERT) {
        emit_convert(e, i);
    } else if (i->op == OP_MATERIALIZE) {
        emit_materialize(e, i);
    } else if (i->op == OP_SLIDE) {
        emit_slide(e, i);
    } else if (ir_operand(i, 0)->def && kernel_kept(ir_operand(i, 0)->def)) {
        emit_kept_take(e, i);
    } else if (ir_result(i)->type->kind == TYPE_TILE) {
        if (!emit_row_take(e, i) && !emit_alike_take(e, i)) emit_opaque_tile(e, i);
    } else {
        const Value *v = ir_operand(i, 0);
        const char *x = cast_expr(e, v->type->dtype, DT_I32, name_of(e, v));
        declare(e, ir_result(i), str(e, "%s(%s)", use(e, "opaque"), x));
    }
}

static void emit_instr(Emit *e, Instr *i)
{
    switch (op_family(i->op)) {
    case OPS_CONSTANT:
    case OPS_LAUNCH:
    case OPS_TOKEN: return;
    case OPS_PLACE:
        if (i->op == OP_PROGRAM_COORD && !emit_program_coord(e, i))
            e->storage[ir_result(i)->id] = name_of(e, ir_operand(i, 0));
        return;
    case OPS_ARITHMETIC:
    case OPS_BITS:
    case OPS_COMPARE:
    case OPS_SELECT:
    case OPS_FUNCTION:
    case OPS_CONVERSION:
    case OPS_RANDOM: emit_elementwise(e, i); return;
    case OPS_SHAPE: emit_shape(e, i); return;
    case OPS_REDUCE: emit_reduce(e, i); return;
    case OPS_COMBINED: emit_combined(e, i); return;
    case OPS_ARG:
    case OPS_SCAN:
    case OPS_SORT:
        if (i->op == OP_SORT) emit_sort(e, i);
        else emit_rows(e, i);
        return;
    case OPS_MEMORY: emit_memory(e, i); return;
    case OPS_MESSAGE:
        if (i->op == OP_ASSERT) emit_assert(e, i);
        else emit_print(e, i);
        return;
    case OPS_CONTROL: emit_control(e, i); return;
    case OPS_REGISTERS: emit_registers(e, i); return;
    case OPS_PRODUCT:
        if (i->op == OP_MMA_SYNC) emit_mma_sync(e, i);
        else emit_hopper(e, i);
        return;
    case OPS_SHARED:
        if (i->op == OP_BARRIER && ir_attr(i, ATTR_HALF)) emit_half_barrier(e, i);
        else if (i->op == OP_BARRIER) barrier(e);
        else if (i->op == OP_SHARED_SLICE || i->op == OP_SHARED_TRANSPOSE) emit_hopper(e, i);
        else emit_shared(e, i);
        return;
    case OPS_RING:
    case OPS_ROLES:
    case OPS_ORDER: emit_hopper(e, i); return;
    case OPS_COLLECTIVE:
        if (i->op == OP_CLUSTER_COMBINE) emit_combine(e, i);
        else if (i->op == OP_WORKSPACE_COMBINE) emit_workspace_combine(e, i);
        else if (i->op == OP_SHARE_COMBINE) emit_share_combine(e, i);
        else emit_hopper(e, i);
        return;
    case OPS_CALL:
    case OPS_TERMINATOR: break;
    }
    ir_fail(e->s, i->loc, "the GPU emitter has no form for %s", op_info[i->op].name);
}

void emit_block(Emit *e, Block *b)
{
    int in_last = e->in_last;
    size_t views = e->views.len;
    for (Instr *i = b->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_TERM) break;
        if (i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE && !ir_result(i)->type->layout &&
            (op_info[i->op].flags & OPF_PURE))
            continue;
        source_line(e, i);
        e->here = i;
        if (i->op == OP_BARRIER || i->op == OP_WGMMA_WAIT || i->n_blocks) emit_due_fence(e);
        if (is_run_op(i)) i = emit_run(e, i);
        else emit_instr(e, i);
        if (i == e->last_buffer) {
            line(e, "/* the buffers are done with: their space is scratch from here on */");
            directive(e, "#undef SCRATCH\n#define SCRATCH 0");
            e->scratch_early = e->scratch_bytes;
            e->scratch_use_early = e->scratch_use;
            e->scratch_use = (ScratchUse){ { 0 }, NULL, 0 };
            e->scratch_bytes = 0;
        }
    }
    if (e->joint) ir_fail(e->s, ir_terminator(b)->loc, "a reduction waits for one that is not in its block");
    emit_views_close(e, views);
    while (e->in_last > in_last) emit_workspace_leave(e);
}

static bool is_no_buffer(void *user, Value *v)
{
    (void)user;
    return v->type->kind != TYPE_SHARED;
}

/* The last instruction of the body that uses buffers. It is for kernels without warp roles, because a
 * producer warp runs at its own pace. */
static const Instr *last_buffer(Emit *e)
{
    const Instr *last = NULL;
    for (Instr *i = e->f->body->first; i; i = i->next) {
        if (kernel_is_roles(i->op)) return NULL;
        if (!ir_all_operands(i, is_no_buffer, NULL)) last = i;
    }
    return last;
}

/* --- the start --------------------------------------------------------------------------------------- */

/* Emits the start of a grid that may start early. Every access to memory comes after the wait, which each
 * thread of each CTA executes. Therefore a grid that waits for this one also waits for its predecessors; a
 * CTA that ended without waiting would let its successor pass. Successors are admitted after that: they use
 * the room of CTAs that have ended, never the room of one that has yet to start. */
void emit_start(Emit *e)
{
    if (!e->waits) return;
    e->waits = false;
    line(e, "%s();", use(e, "grid_wait"));
    line(e, "%s();", use(e, "grid_release"));
}

/* Whether mbarriers can be initialized before that, because no operation before the warp roles accesses
 * memory. */
static bool quiet_start(const Func *f)
{
    for (const Instr *i = f->body->first; i; i = i->next) {
        if (i->op == OP_ROLES) return true;
        if (i->n_blocks || (op_info[i->op].flags & (OPF_READ | OPF_WRITE))) return false;
    }
    return false;
}

/* --- the frame --------------------------------------------------------------------------------------- */

/* Checks for errors that would silently give a wrong kernel. They are internal errors. `roles`: also those of
 * producer and consumer warps. */
static void check_kernel(Session *s, const Func *f, bool roles)
{
    int operand;
    const char *why;
    const Instr *early = roles ? ir_flight_fault(s, f, &operand) : NULL;
    if (early)
        ir_fail(
            s, early->loc, "operand %d of %s may be a product in flight", operand, op_info[early->op].name);
    const Instr *written = roles ? ir_operand_fault(s, f) : NULL;
    if (written)
        ir_fail(s, written->loc, "the registers of operand 0 may be written while the product is in flight");
    const Instr *nowhere = ir_held_fault(f, &operand);
    if (nowhere)
        ir_fail(s, nowhere->loc, "operand %d of %s is in no registers", operand, op_info[nowhere->op].name);
    const Instr *apart = roles ? ir_roles_fault(f, &why) : NULL;
    if (apart) ir_fail(s, apart->loc, "%s", why);
    const Instr *stuck = roles ? ir_stages_fault(s, f, &why) : NULL;
    if (stuck) ir_fail(s, stuck->loc, "%s", why);
}

/* The CTAs of a cluster, which share one program or load together; 0 or 1: none. */
static int cluster_size(const Emit *e)
{ return e->plan->cluster > 1 ? e->plan->cluster : e->plan->multicast; }

/* Records the prelude functions that the frame itself calls. */
static void use_frame_functions(Emit *e, bool shared)
{
    use_always(e, "uniform");
    emit_use_scalars(e);
    if (shared) use_always(e, "shared_address");
    if (is_hip(e)) use_always(e, "thread_id");
    static const char *const meeting[] = { "mbar_init", "fence_mbarrier_init", "warp_sync",
        "cluster_arrive" };
    if (cluster_size(e) > 1) use_always(e, "cluster_rank");
    for (size_t k = 0; e->cluster_met && k < sizeof meeting / sizeof *meeting; k++) use_always(e, meeting[k]);
    if (is_hip(e) && shared) use(e, "LDS");
}

static void print_signature(Emit *e, int threads, int64_t shared, Text *t)
{
    const KernelPlan *p = e->plan;
    if (is_hip(e))
        text_printf(t, "KERNEL(%d, %d)\nvoid %s(", threads, kernel_waves_per_eu(p, shared), entry_name(e));
    else {
        text_printf(t, "extern \"C\" __global__ void ");
        if (cluster_size(e) > 1) text_printf(t, "__cluster_dims__(%d, 1, 1) ", cluster_size(e));
        int abreast = e->abreast ? p->abreast : 1, ctas = p->min_ctas / abreast;
        text_printf(
            t, "__launch_bounds__(%d, %d)\n%s(", threads * abreast, ctas > 0 ? ctas : 1, entry_name(e));
    }
    for (size_t k = 0; k < e->slots.len; k++) {
        if (k) text_puts(t, ",\n    ");
        emit_param(e, t, &e->slots.data[k]);
    }
    text_puts(t, ")\n{\n");
    emit_scalars(e, t);
}

/* The program of the warp, and where its part of the scratch memory begins: each warp of the CTA is as the
 * whole CTA of another kernel. */
static void print_program(Emit *e, int64_t shared, Text *t)
{
    text_printf(t, "    const int tid = threadIdx.x & 31, lane = tid, warp = 0;\n    (void)tid; (void)lane; "
                   "(void)warp;\n"
                   "    const u32 place = uniform(threadIdx.x >> 5), program = blockIdx.x * (blockDim.x >> "
                   "5) + place;\n");
    if (shared) text_printf(t, "    const u32 own_scratch = place * %lld;\n", (long long)shared);
    text_printf(t, "    if (program >= %s) return;\n", e->programs);
}

/* Declares shared memory, and the position of the thread in the CTA and the cluster. */
static void print_places(Emit *e, int64_t shared, Text *t)
{
    int wave = e->target->wave;
    if (shared && is_hip(e))
        text_printf(t, "    __shared__ __attribute__((aligned(1024))) u8 shared[%lld];\n", (long long)shared);
    else if (shared) text_puts(t, "    extern __shared__ __align__(1024) u8 shared[];\n");
    if (shared) text_puts(t, "    const u32 shared_base = shared_address(shared);\n    (void)shared_base;\n");
    if (e->abreast) {
        print_program(e, shared, t);
        return;
    }
    text_printf(t,
        "    const int tid = %s, lane = tid & %d, warp = uniform(tid >> %d);\n    (void)tid; (void)lane; "
        "(void)warp;\n",
        is_hip(e) ? "thread_id()" : "threadIdx.x", wave - 1, wave == 64 ? 6 : 5);
    if (cluster_size(e) <= 1) return;
    text_puts(t, "    const int block = cluster_rank();\n    (void)block;\n");
    if (!e->cluster_met) return;
    text_puts(t, "    if (tid == 0) {\n");
    for (size_t k = 0; k < e->cluster_bars.len; k++)
        text_printf(t, "        mbar_init(shared_base + %lld, 1);\n", (long long)e->cluster_bars.data[k]);
    if (e->cluster_reads)
        text_printf(
            t, "        mbar_init(shared_base + %lld, %d);\n", (long long)e->cluster_read, e->cluster_reads);
    text_puts(t, "        fence_mbarrier_init();\n    }\n    warp_sync();\n    cluster_arrive(); "
                 "       /* this CTA has started: the others may send to its shared memory */\n");
}

/* The functions of the prelude that the printed text calls, and those that they call. */
static void print_prelude(Emit *e, Text *out)
{
    const char **names = arena_array(&e->s->arena, const char *, e->used.len + 1);
    bool *called = arena_array(&e->s->arena, bool, e->used.len + 1);
    for (size_t k = 0; k < e->used.len; k++) {
        names[k] = e->used.data[k].node->name;
        called[k] = e->used.data[k].node->uses > 0;
    }
    gpu_prelude(e->s, e->target, names, called, e->used.len, out);
}

/* Writes the whole text: head comment, prelude and kernel. `body` has the statements of the kernel, and comes
 * after `pre`. */
static Text print_kernel(
    Emit *e, Body *pre, const Body *body, int threads, int64_t scratch_at, int64_t shared)
{
    Text head, text;
    text_init(&head, &e->s->arena);
    text_init(&text, &e->s->arena);
    emit_summary(e, scratch_at, shared, &head);
    use_frame_functions(e, shared > 0);
    if (e->abreast) text_puts(&text, "\n#define SCRATCH own_scratch\n\n");
    else text_printf(&text, "\n#define SCRATCH %lld\n\n", (long long)scratch_at);
    print_signature(e, threads, shared, &text);
    print_places(e, shared, &text);
    body_append(pre, body);
    body_print(e, pre, &text);
    text_puts(&text, "}\n#undef SCRATCH\n");
    print_prelude(e, &head);
    text_write(&head, text.data, text.len);
    return head;
}

/* Bytes of scratch memory of a program beyond which a CTA has one program. */
enum { MOST_SCRATCH_ABREAST = 4096 };

/* Fills in the resources that the code needs, and the facts that it assumes. */
static void describe(Emit *e, int threads, int64_t shared, GpuCode *out)
{
    const KernelPlan *plan = e->plan;
    int ctas = cluster_size(e);
    bool early = e->scratch_early >= 0;
    out->name = entry_name(e);
    out->planned_registers = plan->registers;
    out->lane_registers = kernel_lane_registers(plan->target, plan->warps);
    out->planned_waves = kernel_waves_per_eu(plan, shared);
    out->threads = threads;
    out->shared_bytes = shared;
    out->scratch_bytes = e->scratch_bytes;
    out->largest = e->largest;
    out->registers = registers_at_most(plan, threads);
    out->consumer_registers = plan->producer_warps ? plan->consumer_registers : 0;
    out->beside = early ? e->scratch_use_early : e->scratch_use;
    out->after = early ? e->scratch_use : (ScratchUse){ { 0 }, NULL, 0 };
    out->slots = e->slots.data;
    out->n_slots = (int)e->slots.len;
    out->maps = e->maps.data;
    out->n_maps = (int)e->maps.len;
    out->persistent = plan->resident ? plan->resident : plan->persistent;
    out->abreast = e->abreast && shared <= MOST_SCRATCH_ABREAST ? plan->abreast : 0;
    out->shares = plan->shares;
    out->cluster = ctas > 0 ? ctas : 1;
    out->clusters = plan->clusters > 1 ? plan->clusters : 1;
    out->workspace_per_block = e->workspace_per_block;
    out->accesses = e->accesses.data;
    out->n_accesses = (int)e->accesses.len;
    out->shared_map = e->shared_map.data;
    out->n_shared_map = (int)e->shared_map.len;
}

static bool is_product(const void *user, const Instr *i)
{
    (void)user;
    return op_family(i->op) == OPS_PRODUCT;
}

/* Emits the kernel. With `measure`, it produces everything except the text. */
static void emit(Session *s, Func *f, KernelPlan *plan, GpuCode *out, bool measure)
{
    Body body = { 0 }, pre = { 0 };
    Emit *e = arena_new(&s->arena, Emit);
    check_kernel(s, f, !measure && !plan->roles_checked);
    *e = (Emit){ .s = s,
        .f = f,
        .plan = plan,
        .target = plan->target,
        .out = &body,
        .pre = &pre,
        .indent = 1,
        .role = -1,
        .measure = measure };
    e->n_values = f->module->next_id + 1;
    e->multiplies = ir_any_in(f->body, is_product, NULL);
    e->steps = window_steps(f);
    e->storage = arena_array(&s->arena, const char *, e->n_values);
    e->truths = arena_array(&s->arena, const char *, e->n_values);
    e->beside = arena_array(&s->arena, bool, e->n_values);
    e->threads = plan->warps * plan->target->wave;
    e->scratch_early = -1;
    if ((e->abreast = plan->abreast > 1)) e->programs = all_programs(e);
    /* Data from other CTAs may arrive at any time, so scratch never overlaps the buffers. */
    e->last_buffer = plan->split_k || plan->shares || plan->resident ? NULL : last_buffer(e);
    bool early_start = e->waits = plan->options.early_start && target_has(plan->target, TF_EARLY_START);
    if (!quiet_start(f)) emit_start(e);
    if (!plan->producer_warps) emit_workspace_enter(e);
    emit_block(e, f->body);
    int threads = kernel_cta_warps(plan) * plan->target->wave;
    int64_t scratch_at = (e->shared_bytes + 127) / 128 * 128;
    int64_t late = e->scratch_early < 0 ? 0 : e->scratch_bytes;
    if (e->scratch_early >= 0) e->scratch_bytes = e->scratch_early;
    int64_t all = scratch_at + e->scratch_bytes > late ? scratch_at + e->scratch_bytes : late;
    if (e->abreast) all = (all + 127) / 128 * 128; /* the scratch memory of the next warp follows */
    Text text = { 0 };
    if (!measure) text = print_kernel(e, &pre, &body, threads, scratch_at, all);
    *out = (GpuCode){ .text = text.data, .text_len = text.len, .early_start = early_start };
    describe(e, threads, all, out);
}

void gpu_emit(Session *s, Func *f, KernelPlan *plan, GpuCode *out) { emit(s, f, plan, out, false); }
void gpu_measure(Session *s, Func *f, KernelPlan *plan, GpuCode *out) { emit(s, f, plan, out, true); }
