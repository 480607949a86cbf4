/* explain_pictures.c: the pictures of `tilec explain --plot`, and the map: which program computes which part
 * of the output, in which order. */
#include "tools/tilec/explain/explain_pictures.h"
#include "tools/tilec/sim/sim.h"

const char *const picture_name[PICTURE_COUNT] = { "timeline", "map", "access", "memory" };

/* --- the map ----------------------------------------------------------------------------------------- */

enum { LEFT = 64, MOST_MAPPED = 1 << 16 };

/* The window of a program in the plane of the output's last two axes. */
typedef struct Place {
    int64_t order, program, at[2], n[2];
} Place;
typedef VEC(Place) Places;

typedef struct Map {
    Explained *x;
    int param, rank;
    int64_t extent[2]; /* of the plane */
    Places places;
    int64_t beyond; /* programs whose window is in another plane */
} Map;

/* Whether the access writes a window of the output; its place in the plane. */
static bool place_of(const Map *m, const SimAccess *a, Place *out, bool *plane)
{
    const SimTrace *trace = m->x->launch.trace;
    const SimSite *site = sim_trace_site(trace, a->site);
    const Param *p = &m->x->tile->params[m->param];
    if (!site->write || site->indexed || site->param != m->param) return false;
    int64_t at = (a->at - sim_trace_tensor(trace, m->param)) / site->size, c[TILE_MAX_RANK];
    const int64_t *strides = m->x->launch.strides[m->param];
    for (int k = 0; k < m->rank; k++) {
        int64_t pitch = strides[k] > 0 ? strides[k] : 1;
        c[k] = at / pitch % m->x->launch.dims[p->dims[k]];
    }
    *plane = true;
    for (int k = 0; k + 2 < m->rank; k++) *plane &= c[k] == 0;
    for (int k = 0; k < 2; k++) {
        int axis = m->rank - 2 + k;
        out->at[k] = axis >= 0 ? c[axis] : 0;
        out->n[k] = 1;
        for (int d = 0; d < site->rank; d++)
            if (site->axis[d] == axis) out->n[k] = a->n[d];
    }
    return true;
}

static int first_output(const Explained *x)
{
    for (int k = 0; k < sim_trace_sites(x->launch.trace); k++) {
        const SimSite *s = sim_trace_site(x->launch.trace, k);
        if (s->write && !s->indexed) return s->param;
    }
    return -1;
}

bool explain_has_map(Explained *x)
{
    explain_launch(x);
    return x->launch.trace && first_output(x) >= 0;
}

static void run_program(Map *m, SimProgram *p, int64_t order, int64_t program)
{
    SimStep step;
    Place place = { .order = order, .program = program };
    bool plane = false;
    if (sim_program_run(p, program, &step)) return;
    for (int64_t k = 0; k < step.n; k++) {
        if (!place_of(m, &step.access[k], &place, &plane)) continue;
        if (plane) vec_push(&m->x->in->session.arena, &m->places, place);
        else m->beyond++;
        return;
    }
}

static void find_places(Map *m)
{
    Explained *x = m->x;
    const SimTrace *trace = x->launch.trace;
    const char *why = NULL;
    Session *s = &x->in->session;
    const EvalCode *remap = x->tile->remap ? eval_compile(&s->arena, x->tile, x->tile->remap, &why) : NULL;
    SimProgram *p = sim_program_new(trace, x->in->tool->alloc);
    EvalEnv env = sim_trace_env(trace);
    int64_t all = sim_trace_programs(trace), to[8];
    if (!p) arena_oom(&s->arena);
    for (int64_t k = 0; k < all && k < MOST_MAPPED; k++) {
        env.linear = to[0] = k;
        if (remap && (!eval_run(remap, &env, to, 8) || to[0] < 0 || to[0] >= all)) to[0] = k;
        run_program(m, p, k, to[0]);
    }
    sim_program_free(p);
}

/* Light at the first program, dark at the last. */
static const char *shade(Arena *a, int64_t order, int64_t all)
{
    int light = all > 1 ? 92 - (int)(52 * order / (all - 1)) : 92;
    return arena_printf(a, "hsl(210,60%%,%d%%)", light);
}

static void draw_places(const Map *m, double top, double width, double height, Text *t)
{
    Arena *a = t->arena;
    int64_t all = sim_trace_programs(m->x->launch.trace);
    double sx = width / (double)(m->extent[1] ? m->extent[1] : 1),
           sy = height / (double)(m->extent[0] ? m->extent[0] : 1);
    for (size_t k = 0; k < m->places.len; k++) {
        const Place *p = &m->places.data[k];
        double x = LEFT + (double)p->at[1] * sx, y = top + (double)p->at[0] * sy, w = (double)p->n[1] * sx,
               h = (double)p->n[0] * sy;
        if (x + w > LEFT + width) w = LEFT + width - x;
        if (y + h > top + height) h = top + height - y;
        const char *number = arena_printf(a, "%lld", (long long)p->order);
        const char *tip = p->order == p->program ? arena_printf(a, "program %lld", (long long)p->program)
                                                 : arena_printf(a, "number %lld in order: program %lld",
                                                       (long long)p->order, (long long)p->program);
        draw_rect(t, x, y, w, h,
            (DrawStyle){ .fill = shade(a, p->order, all), .stroke = w > 3 && h > 3 ? "white" : NULL }, tip);
        double size = h - 2 < 11 ? h - 2 : 11;
        if (size >= 6 && draw_text_width(number, size) <= w - 2)
            draw_text(t, x + w / 2, y + h / 2 + size * 0.36,
                (DrawFont){
                    .size = size, .anchor = DRAW_MIDDLE, .fill = 2 * p->order > all ? "white" : "black" },
                number);
    }
}

static bool draw_map(Explained *x, Text *t)
{
    Session *s = &x->in->session;
    explain_launch(x);
    Map m = { .x = x, .param = x->launch.trace ? first_output(x) : -1 };
    if (m.param < 0) {
        diag_error(s, x->tile->loc, "--plot=map: %s",
            x->launch.trace ? "no program stores a window of a tensor" : x->launch.why_not);
        return false;
    }
    const Param *p = &x->tile->params[m.param];
    m.rank = p->type->rank;
    for (int k = 0; k < 2; k++)
        m.extent[k] = m.rank - 2 + k >= 0 ? x->launch.dims[p->dims[m.rank - 2 + k]] : 1;
    find_places(&m);
    double width = 640, height = width * (double)m.extent[0] / (double)(m.extent[1] ? m.extent[1] : 1),
           top = 66;
    if (height > 640) height = 640;
    if (height < 24) height = 24;
    const char *title = arena_printf(&s->arena, "%s: programs on %s", x->title, p->name),
               *note =
                   arena_printf(&s->arena, "%lld programs, numbered in the order in which they start%s%s%s",
                       (long long)sim_trace_programs(x->launch.trace),
                       m.beyond ? ", at 0 of the outer axes of the tensor" : "",
                       x->launch.assumed ? "; " : "", x->launch.assumed ? x->launch.assumed : "");
    double page = picture_width(LEFT + width + 24, title, note);
    draw_begin(t, page, top + height + 90);
    picture_title(t, title, note);
    draw_rect(t, LEFT, top, width, height, (DrawStyle){ .fill = "#f4f4f4", .stroke = "#444444" }, NULL);
    draw_places(&m, top, width, height, t);
    picture_axes(t, LEFT, top, width, height,
        m.rank > 1 ? arena_printf(&s->arena, "axis %d", m.rank - 2) : "",
        arena_printf(&s->arena, "axis %d", m.rank - 1), m.extent[0], m.extent[1]);
    DrawKey keys[] = { { "first program", { .fill = shade(t->arena, 0, 2) } },
        { "last program", { .fill = shade(t->arena, 1, 2) } },
        { "no program", { .fill = "#f4f4f4", .stroke = "#444444" } } };
    draw_legend(t, LEFT, top + height + 56, width, keys, 3);
    draw_end(t);
    return true;
}

/* --- shared by the pictures -------------------------------------------------------------------------- */

double picture_width(double least, const char *title, const char *note)
{
    double a = 16 + draw_text_width(title, 14), b = 16 + draw_text_width(note, 11);
    double wide = a > b ? a : b;
    return wide > least ? wide : least;
}

void picture_title(Text *t, const char *title, const char *note)
{
    draw_text(t, 8, 22, (DrawFont){ .size = 14 }, title);
    draw_text(t, 8, 40, (DrawFont){ .size = 11, .fill = "#555555" }, note);
}

void picture_axes(Text *t, double x, double y, double width, double height, const char *down,
    const char *right, int64_t rows, int64_t columns)
{
    DrawFont small = { .size = 11, .anchor = DRAW_END };
    draw_text(t, x - 5, y + 10, small, "0");
    draw_text(t, x - 5, y + height, small, arena_printf(t->arena, "%lld", (long long)rows));
    if (height > draw_text_width(down, 12) + 30)
        draw_text(t, x - 26, y + height / 2, (DrawFont){ .anchor = DRAW_MIDDLE, .turn = -90 }, down);
    draw_text(t, x, y + height + 15, (DrawFont){ .size = 11 }, "0");
    draw_text(t, x + width, y + height + 15, small, arena_printf(t->arena, "%lld", (long long)columns));
    draw_text_fit(t, x + width / 2, y + height + 30, width, (DrawFont){ .anchor = DRAW_MIDDLE }, right);
}

bool explain_picture(Explained *x, PictureKind kind, const Timeline *line, Text *t)
{
    if ((kind == PICTURE_ACCESS || kind == PICTURE_MEMORY) && !x->kernel) {
        diag_error(&x->in->session, x->tile->loc, "--plot=%s: %s", picture_name[kind],
            x->o->target->kind == TARGET_CPU ? "a CPU has no such threads; choose a --target that is a GPU"
                                             : "the kernel does not fit as declared");
        return false;
    }
    switch (kind) {
    case PICTURE_TIMELINE: timeline_svg(x->title, line, t); return true;
    case PICTURE_MAP: return draw_map(x, t);
    case PICTURE_ACCESS:
        explain_launch(x);
        draw_accesses(x, t);
        return true;
    case PICTURE_MEMORY:
        explain_launch(x);
        draw_resources(x, t);
        return true;
    case PICTURE_COUNT: break;
    }
    return false;
}
