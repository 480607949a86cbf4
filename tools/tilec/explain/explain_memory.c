/* explain_memory.c: `tilec explain --memory`: what each access of a kernel moves, counted from the layouts in
 * which the emitter wrote it, what of it is used again, and what could be better. */
#include "tools/tilec/explain/explain.h"
#include <stdlib.h>

const char *const access_class_name[CLASS_COUNT] = { "coalesced", "strided", "scattered", "masked" };
const char *const access_class_colour[CLASS_COUNT] = { "#009e73", "#d55e00", "#cc79a7", "#b0b0b0" };

AccessClass access_class(const AccessCount *c)
{
    if (c->data) return CLASS_SCATTERED;
    if (c->apart > 1.5 * c->fewest) return CLASS_STRIDED;
    return c->active < 0.5 * c->lanes ? CLASS_MASKED : CLASS_GOOD;
}

int explain_line(const Explained *x, Loc loc)
{
    int line = 0, column = 0;
    if (loc.file) diag_position(&x->in->session, loc, &line, &column);
    return line;
}

/* NULL: the source itself; else the name of the imported file, without its folder. */
static const char *imported_file(const Explained *x, Loc loc)
{
    const Source *source = loc.file == x->in->file ? NULL : diag_source(&x->in->session, loc.file);
    const char *slash = source ? strrchr(source->name, '/') : NULL;
    return slash ? slash + 1 : source ? source->name : NULL;
}

const char *explain_place(const Explained *x, Loc loc)
{
    const char *file = imported_file(x, loc);
    return arena_printf(
        &x->in->session.arena, file ? "%s:%d" : "%sline %d", file ? file : "", explain_line(x, loc));
}

static const char *shape_of(Arena *a, const Type *t)
{
    Text s;
    text_init(&s, a);
    text_printf(&s, "%s[", dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++) text_printf(&s, "%s%lld", k ? ", " : "", (long long)t->shape[k]);
    text_puts(&s, "]");
    return s.data;
}

/* The tile that an access of shared memory moves: a result, else the last operand that is a tile. */
static const Type *tile_of(const Instr *i)
{
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].type->kind == TYPE_TILE) return i->results[k].type;
    for (int k = i->n_operands - 1; k >= 0; k--)
        if (ir_operand(i, k)->type->kind == TYPE_TILE) return ir_operand(i, k)->type;
    return NULL;
}

/* The tensor that a buffer or ring is named after. */
static const char *buffer_name(const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        while (v && !v->name && v->def && v->def->n_operands) v = ir_operand(v->def, 0);
        if (v && v->name) return v->name;
    }
    return NULL;
}

const char *explain_access_name(const Explained *x, const EmittedAccess *a)
{
    Arena *arena = &x->in->session.arena;
    const char *op = op_info[a->instr->op].name;
    if (a->param >= 0) return arena_printf(arena, "%s %s", op, x->kernel->params[a->param].name);
    if (a->of && a->of->name) return arena_printf(arena, "%s %s", op, a->of->name);
    const Type *t = tile_of(a->instr);
    const char *name = a->instr->op == OP_CONVERT || !buffer_name(a->instr) ? NULL : buffer_name(a->instr);
    return name ? arena_printf(arena, "%s %s", op, name)
           : t  ? arena_printf(arena, "%s %s", op, shape_of(arena, t))
                : op;
}

void explain_count(const Explained *x, const EmittedAccess *a, AccessCount *c)
{ access_count(a, x->o->target, a->param >= 0 ? x->launch.strides[a->param] : NULL, c); }

/* --- rows -------------------------------------------------------------------------------------------- */

/* One line of the report: accesses of one line of the source that move the same. */
typedef struct Row {
    const EmittedAccess *access;
    AccessCount count;
    const char *name, *place; /* "line 5", "lib.tile:5" */
    int line, times;
} Row;
typedef VEC(Row) Rows;

static bool same_row(const Row *a, const Row *b)
{
    return !strcmp(a->place, b->place) && !strcmp(a->name, b->name) && a->access->way == b->access->way &&
           a->access->write == b->access->write && !memcmp(&a->count, &b->count, sizeof a->count);
}

static int by_line(const void *a, const void *b)
{
    const Row *x = a, *y = b;
    uint32_t file = x->access->instr->loc.file, other = y->access->instr->loc.file;
    if (file != other) return file < other ? -1 : 1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    return (x->access > y->access) - (x->access < y->access);
}

static Rows rows_of(const Explained *x, bool shared)
{
    Rows rows = { 0 };
    for (int k = 0; k < x->code.n_accesses; k++) {
        const EmittedAccess *a = &x->code.accesses[k];
        Row row = { .access = a, .times = 1 };
        if ((a->shared != NULL) != shared) continue;
        explain_count(x, a, &row.count);
        row.name = explain_access_name(x, a);
        row.line = explain_line(x, a->instr->loc);
        row.place = explain_place(x, a->instr->loc);
        size_t i = 0;
        while (i < rows.len && !same_row(&rows.data[i], &row)) i++;
        if (i < rows.len) rows.data[i].times++;
        else vec_push(&x->in->session.arena, &rows, row);
    }
    if (rows.len) qsort(rows.data, rows.len, sizeof *rows.data, by_line);
    return rows;
}

/* A row's place in the column `line`, and how wide that column is. */
static const char *row_place(const Row *r)
{ return !strncmp(r->place, "line ", 5) ? r->place + 5 : r->place; }

static int place_width(const Rows *rows)
{
    size_t wide = 4;
    for (size_t k = 0; k < rows->len; k++)
        if (strlen(row_place(&rows->data[k])) > wide) wide = strlen(row_place(&rows->data[k]));
    return (int)wide;
}

static const char *times_of(Arena *a, const Row *r)
{ return r->times > 1 ? arena_printf(a, " x%d", r->times) : ""; }

/* At most one digit behind the point, and none for whole numbers. */
static const char *number_of(Arena *a, double v)
{ return arena_printf(a, v == (double)(int64_t)v ? "%.0f" : "%.1f", v); }

/* --- tensors ----------------------------------------------------------------------------------------- */

static int unit_axis(const Explained *x, int param)
{
    const Type *t = x->kernel->params[param].type;
    for (int a = t->rank - 1; a >= 0; a--)
        if (x->launch.strides[param][a] == 1) return a;
    return t->rank - 1;
}

/* The tensor's axis along which lanes follow each other; -1: none. */
static int lane_axis(const EmittedAccess *a, const AccessCount *c)
{
    for (int k = 0; c->lane_axis >= 0 && k < TILE_MAX_RANK; k++)
        if (a->tile_axis[k] == c->lane_axis) return k;
    return -1;
}

/* What the lanes' distance comes from, and what to do about it. */
static void advise(const Explained *x, const Row *r, Text *t)
{
    const EmittedAccess *a = r->access;
    const AccessCount *c = &r->count;
    const Param *p = &x->kernel->params[a->param];
    Arena *arena = &x->in->session.arena;
    int unit = unit_axis(x, a->param), tile = a->tile_axis[unit];
    double requests = c->requests > 0 ? c->requests : 1;
    text_printf(t, "  %s: %s: ", r->place, r->name);
    if (c->data) {
        text_printf(t,
            "addresses depend on data: up to %s sectors for %s bytes of a warp; sort the indices, or let a "
            "tile of neighbours be loaded at each\n",
            number_of(arena, c->worst), number_of(arena, c->bytes / requests));
        return;
    }
    const char *moved = arena_printf(arena, "%s sectors for %s bytes", number_of(arena, c->moved / requests),
        number_of(arena, c->bytes / requests));
    bool narrow = tile < 0 || !a->layout || a->layout->tile[tile] == 1, stepped = a->step[unit] > 1;
    int axis = lane_axis(a, c);
    int64_t stride = axis >= 0 ? x->launch.strides[a->param][axis] * a->step[axis] : 0;
    if (stepped)
        text_printf(t,
            "step %lld on the last axis of %s: %s; load whole rows and take every %lldth element of the "
            "tile\n",
            (long long)a->step[unit], p->name, moved, (long long)a->step[unit]);
    else if (narrow && stride)
        text_printf(t,
            "stride %lld on axis %d of %s, along which lanes follow each other: %s; the tile has one element "
            "along axis %d, which is contiguous: make it wider there, or go through `transpose`\n",
            (long long)stride, axis, p->name, moved, unit);
    else if (stride > 1 && c->width <= a->bytes)
        text_printf(t,
            "stride %lld on axis %d of %s, along which lanes follow each other: %s; swap the tile's axes or "
            "go through `transpose`\n",
            (long long)stride, axis, p->name, moved);
    else
        text_printf(t,
            "pieces of %s bytes: %s; make the tile wider along axis %d of %s, or let its rows begin at "
            "multiples of %d bytes\n",
            number_of(arena, c->bytes / (c->runs > 0 ? c->runs : 1)), moved, unit, p->name,
            x->o->target->request_bytes);
}

static void print_tensors(const Explained *x, const Rows *rows, Text *t)
{
    Arena *arena = &x->in->session.arena;
    int wide = place_width(rows);
    text_printf(t,
        "tensors, for one tile and all of its warps (sectors of %d bytes):\n"
        "  %*s  %-22s %-18s %5s %7s %8s %9s %8s %8s %6s  %s\n",
        x->o->target->request_bytes, wide, "line", "access", "by", "width", "piece", "requests", "bytes",
        "sectors", "fewest", "lanes", "verdict");
    for (size_t k = 0; k < rows->len; k++) {
        const Row *r = &rows->data[k];
        const AccessCount *c = &r->count;
        AccessClass class = access_class(c);
        text_printf(t, "  %*s  %-22s %-18s %5d %7s %8s %9s %8s %8s %5.0f%%  %s%s%s%s\n", wide, row_place(r),
            r->name, access_way_name(r->access->way), c->width,
            number_of(arena, c->runs > 0 ? c->bytes / c->runs : 0), number_of(arena, c->requests),
            number_of(arena, c->bytes), number_of(arena, c->moved), number_of(arena, c->fewest),
            c->lanes > 0 ? 100 * c->active / c->lanes : 0,
            class == CLASS_STRIDED || class == CLASS_SCATTERED ? "uncoalesced: " : "",
            access_class_name[class],
            class != CLASS_GOOD || c->moved < 1.01 * c->fewest ? "" : ", rows begin within sectors",
            times_of(arena, r));
    }
    for (size_t k = 0; k < rows->len; k++) {
        AccessClass class = access_class(&rows->data[k].count);
        if (class == CLASS_STRIDED || class == CLASS_SCATTERED) advise(x, &rows->data[k], t);
    }
}

/* --- shared memory ----------------------------------------------------------------------------------- */

static const char *shared_way(const EmittedAccess *a)
{
    if (a->way == WAY_UNIT) return a->write ? "TMA" : "wgmma";
    return a->way == WAY_MATRIX ? "ldmatrix" : "vectors";
}

static void print_shared(const Explained *x, const Rows *rows, Text *t)
{
    Arena *arena = &x->in->session.arena;
    if (!rows->len) {
        text_puts(t, "shared memory: no tile goes through it by the threads' own accesses\n");
        return;
    }
    int wide = place_width(rows);
    text_printf(t,
        "shared memory, for one tile and all of its warps (wavefronts: passes over the banks):\n"
        "  %*s  %-22s %-18s %5s %8s %9s %10s %8s  %s\n",
        wide, "line", "access", "by", "width", "requests", "bytes", "wavefronts", "fewest", "bank conflicts");
    for (size_t k = 0; k < rows->len; k++) {
        const Row *r = &rows->data[k];
        const AccessCount *c = &r->count;
        text_printf(t, "  %*s  %-22s %-18s %5d %8s %9s %10s %8s  ", wide, row_place(r), r->name,
            arena_printf(arena, "%s %s", shared_way(r->access), r->access->write ? "write" : "read"),
            c->width, number_of(arena, c->requests), number_of(arena, c->bytes), number_of(arena, c->moved),
            number_of(arena, c->fewest));
        if (c->moved <= c->fewest) text_printf(t, "none%s\n", times_of(arena, r));
        else
            text_printf(t, "%s more wavefronts, %.1f times the fewest%s\n",
                number_of(arena, c->moved - c->fewest), c->moved / c->fewest, times_of(arena, r));
    }
    for (size_t k = 0; k < rows->len; k++) {
        const Row *r = &rows->data[k];
        if (r->count.moved <= r->count.fewest) continue;
        text_printf(t, "  %s: %s: lanes meet in banks: up to %s more wavefronts in a request; ", r->place,
            r->name, number_of(arena, r->count.worst));
        text_puts(
            t, r->access->instr->op == OP_CONVERT && !ir_attr_int(r->access->instr, ATTR_SWIZZLE, 0)
                   ? "let the pass `swizzle` run\n"
                   : "change the extents of the tile, so that its rows are no multiple of 128 bytes apart\n");
    }
}

/* --- what is used again ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

typedef VEC(int64_t) Lines;

/* The lines of a window or of elements, each as often as it is asked for. */
static void push_lines(
    Arena *a, const SimSite *site, const SimAccess *access, const int64_t *elements, int64_t line, Lines *out)
{
    int64_t at = access->at, c[TILE_MAX_RANK] = { 0 };
    for (int32_t k = 0; site->indexed && k < access->n[0]; k++)
        if (!k || elements[access->first + k] / line != elements[access->first + k - 1] / line)
            vec_push(a, out, elements[access->first + k] / line);
    if (site->indexed) return;
    int64_t row = site->rank ? site->step[0] * (access->n[0] - 1) + site->size : site->size;
    for (;;) {
        for (int64_t l = at / line; l <= (at + row - 1) / line; l++) vec_push(a, out, l);
        int d = 1;
        for (; d < site->rank; d++) {
            at += site->step[d];
            if (++c[d] < access->n[d]) break;
            at -= access->n[d] * site->step[d];
            c[d] = 0;
        }
        if (d >= site->rank) return;
    }
}

/* How often one program asks for each line of a tensor: of a program in the middle of the grid. */
static void reuse_within(const Explained *x, double *times)
{
    const ExplainLaunch *l = &x->launch;
    Session *s = &x->in->session;
    Lines *lines = arena_calloc(&s->arena, (size_t)x->tile->n_params + 1, sizeof *lines);
    SimProgram *p = sim_program_new(l->trace, x->in->tool->alloc);
    SimStep step;
    if (!p) arena_oom(&s->arena);
    sim_program_limit(p, 0, EXPLAIN_REPLAYED_STEPS);
    int64_t programs = sim_trace_programs(l->trace);
    if (programs > 0 && !sim_program_run(p, programs / 2, &step))
        for (int64_t k = 0; k < step.n; k++) {
            const SimSite *site = sim_trace_site(l->trace, step.access[k].site);
            push_lines(&s->arena, site, &step.access[k], step.elements, l->device->line, &lines[site->param]);
        }
    sim_program_free(p);
    for (int q = 0; q < x->tile->n_params; q++) {
        size_t n = lines[q].len, distinct = 0;
        if (n) qsort(lines[q].data, n, sizeof *lines[q].data, by_value);
        for (size_t k = 0; k < n; k++) distinct += !k || lines[q].data[k] != lines[q].data[k - 1];
        times[q] = distinct ? (double)n / (double)distinct : 0;
    }
}

/* Which programs the cache model ran, before "64 programs". */
static const char *followed(const Explained *x)
{
    const ExplainLaunch *l = &x->launch;
    Arena *a = &x->in->session.arena;
    const char *which = l->replayed < sim_trace_programs(l->trace)
                            ? arena_printf(a, "the first %lld of ", (long long)l->replayed)
                            : "";
    return l->result.cut ? arena_printf(a, "the beginnings of %s", which) : which;
}

static bool is_accessed(const SimTrace *t, int param)
{
    for (int k = 0; k < sim_trace_sites(t); k++)
        if (sim_trace_site(t, k)->param == param) return true;
    return false;
}

static void print_reuse(Explained *x, Text *t)
{
    ExplainLaunch *l = &x->launch;
    explain_replay(x);
    if (!l->tensors) {
        text_printf(t, "used again: not known: %s\n",
            !l->trace    ? l->why_not
            : !l->device ? "the cache model has no such device"
                         : "the tensors are too large");
        return;
    }
    const Func *f = x->tile;
    double *within = arena_array(&x->in->session.arena, double, (size_t)f->n_params + 1);
    reuse_within(x, within);
    text_printf(t,
        "used again, in lines of %lld bytes of %s%lld programs, and hits by the cache model of %s%s%s:\n"
        "  %-12s %12s %12s %14s %14s %8s %8s\n",
        (long long)l->device->line, followed(x), (long long)sim_trace_programs(l->trace), l->device->name,
        l->other ? arena_printf(&x->in->session.arena, ", which stands for %s", x->o->target->name) : "",
        l->result.sample > 1
            ? arena_printf(&x->in->session.arena, ", of one block in %lld", (long long)l->result.sample)
            : "",
        "tensor", "asked for", "distinct", "in a program", "by programs", "L1 hits", "L2 hits");
    for (int p = 0; p < f->n_params; p++) {
        const SimTensor *s = &l->tensors[p];
        double asked = s->l1.accesses > s->l2.accesses ? s->l1.accesses : s->l2.accesses;
        if (f->params[p].type->kind != TYPE_TENSOR) continue;
        if (asked <= 0 && l->result.sample > 1 && is_accessed(l->trace, p))
            text_printf(t, "  %-12s no line of it is in the blocks that are followed\n", f->params[p].name);
        if (asked <= 0) continue;
        double again = s->distinct > 0 ? asked / s->distinct : 0;
        text_printf(t, "  %-12s %12.0f %12.0f %13.1fx %13.1fx ", f->params[p].name, asked, s->distinct,
            within[p], within[p] > 0 ? again / within[p] : 0);
        if (s->l1.accesses > 0) text_printf(t, "%7.1f%%", 100 * sim_rate(s->l1));
        else text_printf(t, "%8s", "-");
        text_printf(t, " %7.1f%%\n", 100 * sim_rate(s->l2));
    }
}

/* --- divergence -------------------------------------------------------------------------------------- */

/* Windows that reach beyond the tensor: the part of the last one that lies inside. */
static void print_divergence(const Explained *x, const Rows *rows, Text *t)
{
    int said = 0;
    text_puts(t,
        "divergence: a condition of the language is the same for all threads of a program; lanes differ only "
        "under masks\n");
    for (size_t k = 0; k < rows->len; k++) {
        const Row *r = &rows->data[k];
        const EmittedAccess *a = r->access;
        const Attr *e = ir_attr(a->instr, ATTR_EXTENTS);
        if (r->count.active < r->count.lanes && !r->count.data && a->layout && ++said)
            text_printf(t,
                "  %s: %s: %.0f of %.0f lanes move nothing: the tile has fewer elements than the "
                "warps\n",
                r->place, r->name, r->count.lanes - r->count.active, r->count.lanes);
        for (int q = 0; a->masked && e && q < e->n; q++) {
            int64_t have = x->launch.dims[x->kernel->params[a->param].dims[q]], span = e->v[q] * a->step[q];
            if (e->v[q] <= 1 || a->picked >> q & 1 || have % span == 0 || ++said == 0) continue;
            text_printf(t, "  %s: %s: the last window along axis %d has %lld of %lld elements inside\n",
                r->place, r->name, q, (long long)(have % span), (long long)span);
        }
    }
    if (!said) text_puts(t, "  all lanes of all accesses move elements in this launch\n");
}

void explain_memory(Explained *x, Text *t)
{
    explain_launch(x);
    text_printf(t, "memory accesses of %s\n", x->title);
    if (!x->kernel) {
        text_puts(t, "  the kernel does not fit as declared\n");
        return;
    }
    if (x->launch.assumed) text_printf(t, "extents that -D does not give: %s\n", x->launch.assumed);
    Rows tensors = rows_of(x, false), shared = rows_of(x, true);
    print_tensors(x, &tensors, t);
    print_shared(x, &shared, t);
    print_reuse(x, t);
    print_divergence(x, &tensors, t);
}
