/* faults_report.c: the faults of a launch as warnings. See faults.h. */
#include "ir/interp/faults_impl.h"
#include <stdlib.h>

/* The elements of a tensor of which something holds: their number, the box around them, the first. */
typedef struct Found {
    int64_t n, lo[TILE_MAX_RANK], hi[TILE_MAX_RANK], first[TILE_MAX_RANK];
} Found;

static void found_add(Found *f, int rank, const int64_t *index)
{
    for (int a = 0; a < rank; a++) {
        if (!f->n) f->first[a] = index[a];
        if (!f->n || index[a] < f->lo[a]) f->lo[a] = index[a];
        if (!f->n || index[a] >= f->hi[a]) f->hi[a] = index[a] + 1;
    }
    f->n++;
}

static bool is_box(const Found *f, int rank)
{
    int64_t n = 1;
    for (int a = 0; a < rank; a++) n *= f->hi[a] - f->lo[a];
    return f->n == n;
}

static bool next_index(const FaultTensor *t, int64_t *index)
{
    for (int a = t->rank - 1; a >= 0; a--) {
        if (++index[a] < t->shape[a]) return true;
        index[a] = 0;
    }
    return false;
}

static void count_stores(const FaultTrack *t, Found *stored, Found *left)
{
    int64_t index[TILE_MAX_RANK] = { 0 };
    if (!t->cells) return;
    do {
        int64_t at = -t->lowest;
        for (int a = 0; a < t->tensor.rank; a++) at += index[a] * t->tensor.stride[a];
        bool is = atomic_load_explicit(&t->stored[at >> 6], memory_order_relaxed) >> (at & 63) & 1;
        found_add(is ? stored : left, t->tensor.rank, index);
    } while (next_index(&t->tensor, index));
}

/* O[0:128, :] */
static const char *box_text(Arena *a, const FaultTensor *t, const int64_t *lo, const int64_t *hi)
{
    Text x;
    text_init(&x, a);
    text_printf(&x, "%s[", t->name);
    for (int k = 0; k < t->rank; k++) {
        if (k) text_puts(&x, ", ");
        if (lo[k] == 0 && hi[k] == t->shape[k]) text_putc(&x, ':');
        else if (hi[k] == lo[k] + 1) text_printf(&x, "%lld", (long long)lo[k]);
        else text_printf(&x, "%lld:%lld", (long long)lo[k], (long long)hi[k]);
    }
    text_putc(&x, ']');
    return x.data;
}

/* O[3, 5] */
static const char *index_text(Arena *a, const FaultTensor *t, const int64_t *index)
{
    Text x;
    text_init(&x, a);
    text_printf(&x, "%s[", t->name);
    for (int k = 0; k < t->rank; k++) text_printf(&x, "%s%lld", k ? ", " : "", (long long)index[k]);
    text_putc(&x, ']');
    return x.data;
}

static const char *where_left(Arena *a, const FaultTensor *t, const Found *stored, const Found *left)
{
    if (!stored->n) return "all of it";
    if (is_box(left, t->rank)) return box_text(a, t, left->lo, left->hi);
    if (is_box(stored, t->rank)) return arena_printf(a, "all but %s", box_text(a, t, stored->lo, stored->hi));
    return arena_printf(a, "the first is %s", index_text(a, t, left->first));
}

/* An extent that rounds down leaves out less than what one program stores along some axis. */
static void suggest_grid(const FaultGrid *g, const FaultTensor *t, const Found *stored, Session *s, Diag *to)
{
    for (int k = 0; k < g->rank; k++) {
        bool likely = !stored->n && g->extent[k] <= 0;
        if (!g->floor[k].numerator) continue;
        for (int a = 0; a < t->rank && stored->n; a++) {
            int64_t tail = t->shape[a] - stored->hi[a];
            likely |=
                tail > 0 && g->extent[k] > 0 && tail < (stored->hi[a] + g->extent[k] - 1) / g->extent[k];
        }
        if (likely)
            diag_note(s, to, g->floor[k].loc,
                "`%s / %s` is rounded down to %lld, so no program has the rest; write `cdiv(%s, %s)`",
                g->floor[k].numerator, g->floor[k].divisor, (long long)g->extent[k], g->floor[k].numerator,
                g->floor[k].divisor);
    }
}

/* Never 100% or 0% of a part. */
static const char *percent(Arena *a, int64_t part, int64_t all)
{
    double x = 100 * ((double)part / (double)all);
    if (part < all && x > 99.99) x = 99.99;
    return arena_printf(a, "%.4g", x);
}

static void report_left(const FaultTrack *t, const FaultGrid *g, Session *s)
{
    Found stored = { 0 }, left = { 0 };
    count_stores(t, &stored, &left);
    if (!left.n) return;
    Diag *d = diag_warning(s, t->tensor.loc, "%s%% of %s never stored: %lld of %lld elements, %s",
        percent(&s->arena, left.n, left.n + stored.n), t->tensor.name, (long long)left.n,
        (long long)(left.n + stored.n), where_left(&s->arena, &t->tensor, &stored, &left));
    suggest_grid(g, &t->tensor, &stored, s, d);
}

/* --- conflicts --------------------------------------------------------------------------------------- */

/* The index of an element from its place in memory, the axes of the widest strides first. */
static const char *element_text(Arena *arena, const FaultTrack *t, int64_t at)
{
    const FaultTensor *x = &t->tensor;
    int64_t index[TILE_MAX_RANK] = { 0 };
    bool done[TILE_MAX_RANK] = { false };
    for (int n = 0; n < x->rank; n++) {
        int widest = -1;
        for (int a = 0; a < x->rank; a++)
            if (!done[a] && (widest < 0 || llabs(x->stride[a]) > llabs(x->stride[widest]))) widest = a;
        int64_t st = llabs(x->stride[widest]), i = st ? at / st : 0;
        if (i >= x->shape[widest]) i = x->shape[widest] - 1;
        at -= i * st;
        done[widest] = true;
        index[widest] = x->stride[widest] < 0 ? x->shape[widest] - 1 - i : i;
    }
    return index_text(arena, x, index);
}

/* "program 3", or "program (1, 2)" of a grid of several axes */
static const char *program_text(Arena *a, const FaultGrid *g, int64_t p)
{
    int64_t x = g->extent[0] > 0 ? g->extent[0] : 1, y = g->extent[1] > 0 ? g->extent[1] : 1;
    if (g->rank < 2) return arena_printf(a, "program %lld", (long long)p);
    if (g->rank == 2) return arena_printf(a, "program (%lld, %lld)", (long long)(p % x), (long long)(p / x));
    return arena_printf(
        a, "program (%lld, %lld, %lld)", (long long)(p % x), (long long)(p / x % y), (long long)(p / x / y));
}

static Loc site_loc(const Faults *f, uint64_t cell)
{
    const AccessSite *s = f->sites[cell_site(cell)];
    return s ? (Loc){ s->file, s->begin, s->end } : (Loc){ 0 };
}

static void report_conflict(const Faults *f, const FaultTrack *t, const FaultGrid *g, bool read, Session *s)
{
    const FaultConflict *c = read ? &t->read : &t->store;
    Arena *a = &s->arena;
    if (!c->count) return;
    bool swap = !read && cell_program(c->b) < cell_program(c->a);
    uint64_t first = swap ? c->b : c->a, second = swap ? c->a : c->b;
    const char *one = program_text(a, g, cell_program(first) - 1),
               *other = program_text(a, g, cell_program(second) - 1),
               *more = c->count == 1 ? ""
                                     : arena_printf(a, ", and so with %lld element%s more",
                                           (long long)c->count - 1, c->count == 2 ? "" : "s");
    const char *at = element_text(a, t, c->at);
    Loc here = site_loc(f, first), there = site_loc(f, second);
    bool same = here.file == there.file && here.begin == there.begin && here.end == there.end;
    Diag *d =
        read ? diag_warning(s, here, "%s reads %s, which %s stores%s", one, at, other, more)
             : diag_warning(s, here, "%s and %s%s store %s%s", one, other, same ? " both" : "", at, more);
    if (!same) diag_note(s, d, there, "%s stores it here", other);
    if (read)
        diag_note(s, d, (Loc){ 0 },
            "programs run in any order; let one launch store and the next one read, or order them by atomics "
            "with `order = release` and `order = acquire`");
}

static void report_limits(const FaultTrack *t, Session *s)
{
    if (!t->stored)
        diag_warning(s, t->tensor.loc,
            "which elements of %s are stored is not followed: the tensors span more than %lld elements",
            t->tensor.name, (long long)FAULTS_MOST_BITS);
    else if (!t->writer)
        diag_warning(s, t->tensor.loc,
            "which programs store elements of %s is not followed: the tensors span more than %lld elements, "
            "or "
            "more than %lld programs run",
            t->tensor.name, (long long)FAULTS_MOST_CELLS, (long long)FAULTS_MOST_PROGRAMS);
}

void faults_report(const Faults *f, const FaultGrid *g, Session *s)
{
    for (int i = 0; i < f->n; i++) {
        const FaultTrack *t = &f->tracks[i];
        if (!t->tensor.followed) continue;
        report_limits(t, s);
        if (t->stored && t->tensor.out) report_left(t, g, s);
        report_conflict(f, t, g, false, s);
        report_conflict(f, t, g, true, s);
    }
}
