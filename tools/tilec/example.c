/* example.c: the whole command line that would run a kernel: what the user gave, and random tensors, zeros
 * for tensors that are also written, and numbers for what is missing. */
#include "tools/tilec/run/run.h"
#include <stdlib.h>

/* The extent of a dimension of vectors and matrices only, and of one of larger tensors. */
enum { EXTENT = 64, EXTENT_OF_MANY = 16 };
/* An integer const that has no value. */
enum { CONST_VALUE = 16 };

static void put_quoted(Text *t, const char *word)
{
    bool plain = word[strcspn(word, " []*?$&;|<>()'\"\\#!{}~`")] == 0;
    if (plain) {
        text_printf(t, " %s", word);
        return;
    }
    text_puts(t, " '");
    for (; *word; word++) {
        if (*word == '\'') text_puts(t, "'\\''");
        else text_putc(t, *word);
    }
    text_putc(t, '\'');
}

static void put_given(Text *t, const Args *a)
{
    for (int f = 0; f < FLAG_COUNT; f++)
        for (size_t i = 0; i < a->flag[f].len; i++) {
            const char *value = a->flag[f].data[i];
            FlagForm form = flag_info[f].form;
            text_printf(t, " %s", flag_info[f].spelling);
            if (form == FORM_JOINED) text_puts(t, value);
            else if (form != FORM_NONE) put_quoted(t, value);
        }
}

static bool is_number(const char *s) { return *s && !s[strspn(s, "0123456789")]; }

static bool is_scalar(const Run *r, const char *name)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].info.kind == TILE_PARAM_SCALAR && !strcmp(r->params[i].info.name, name)) return true;
    return false;
}

static bool is_dimension(const Run *r, const char *name)
{
    for (int d = 0; r->front && d < r->front->n_dims; d++)
        if (!strcmp(r->front->dims[d], name)) return true;
    return false;
}

/* Where an extent is from that only an assert's expression has asked for: the command does not tell it yet.
 */
static const char asked[] = "assert";

static Extent *extent_of(Run *, const char *dim);

/* A number that the expression of an assert names. */
static bool number_of(void *user, const char *name, int64_t *value)
{
    Run *r = user;
    const Extent *known = extent_find(&r->known, name);
    if (!known && is_dimension(r, name)) known = extent_of(r, name);
    if (known) *value = known->value;
    for (int i = 0; !known && i < r->front->n_params; i++) {
        const FrontParam *p = &r->front->params[i];
        if (p->kind != FRONT_CONST || strcmp(p->name, name) != 0) continue;
        if (p->default_value.kind != FRONT_INT && p->default_value.kind != FRONT_NOTHING) return false;
        *value = p->default_value.kind == FRONT_INT ? p->default_value.i : CONST_VALUE;
        return true;
    }
    return known != NULL;
}

/* The extent of a dimension. Where neither a tensor nor --set has told it, it gets one here: the one that the
 * kernel's asserts give, or one by the ranks of the tensors that have it. */
static Extent *extent_of(Run *r, const char *dim)
{
    for (size_t i = 0; i < r->known.len; i++)
        if (!strcmp(r->known.data[i].name, dim)) return &r->known.data[i];
    const size_t at = r->known.len;
    int64_t extent = EXTENT;
    for (size_t i = 0; i < r->n_params; i++)
        for (int a = 0; a < r->params[i].info.rank; a++)
            if (r->params[i].info.rank > 2 && !strcmp(r->params[i].info.dims[a], dim))
                extent = EXTENT_OF_MANY;
    /* Asserts that need each other find this one. */
    vec_push(&r->tool->arena, &r->known, ((Extent){ dim, extent, asked }));
    if (r->front && frontend_asserted_extent(module_program(r->module), r->front, dim, number_of, r, &extent))
        r->known.data[at].value = extent;
    return &r->known.data[at];
}

/* Extents for all dimensions, from those of the command line and the given ones; whether asserts allow them.
 */
static bool try_extents(Run *r, size_t given, const Extent *chosen, int n)
{
    r->known.len = given;
    for (int k = 0; k < n; k++) vec_push(&r->tool->arena, &r->known, chosen[k]);
    for (int d = 0; d < r->front->n_dims; d++) extent_of(r, r->front->dims[d]);
    return !frontend_asserts_refuted(module_program(r->module), r->front, number_of, r);
}

/* Changes up to so many extents, from dimension `from` on, until the asserts allow all. */
static bool change_extents(Run *r, size_t given, int from, Extent *chosen, int n, int most)
{
    static const int64_t extents[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 3 };
    for (int d = from; n < most && d < r->front->n_dims; d++)
        for (size_t k = 0; k < sizeof extents / sizeof *extents; k++) {
            chosen[n] = (Extent){ r->front->dims[d], extents[k], asked };
            r->known.len = given;
            if (extent_find(&r->known, chosen[n].name)) break;
            if (try_extents(r, given, chosen, n + 1) || change_extents(r, given, d + 1, chosen, n + 1, most))
                return true;
        }
    return false;
}

/* Chooses all extents that the command line does not tell, so that the kernel's asserts hold. */
static void settle_extents(Run *r)
{
    enum { MOST = 2 };
    const size_t given = r->known.len;
    Extent chosen[MOST];
    if (!r->front || try_extents(r, given, NULL, 0)) return;
    for (int most = 1; most <= MOST; most++)
        if (change_extents(r, given, 0, chosen, 0, most)) return;
    try_extents(r, given, NULL, 0);
}

/* The same for a dimension that the command tells by option `from`, or a number as text. */
static int64_t told_extent(Run *r, const char *dim, const char *from)
{
    if (is_number(dim)) return strtoll(dim, NULL, 10);
    Extent *x = extent_of(r, dim);
    if (x->from == asked) x->from = from;
    return x->value;
}

/* With its extents, where they are dimensions and numbers; else they follow from those of the others. */
static void put_tensor(Run *r, Text *t, const tile_param_info *p, int seed)
{
    Text value;
    text_init(&value, &r->tool->arena);
    bool told = true;
    for (int a = 0; a < p->rank; a++)
        told &= is_number(p->dims[a]) || (extent_is_name(p->dims[a]) && !is_scalar(r, p->dims[a]));
    text_printf(&value, "%s=random", p->name);
    if (told && p->rank) {
        text_printf(&value, ":%s[", tile_dtype_name(p->dtype));
        for (int a = 0; a < p->rank; a++)
            text_printf(&value, "%s%lld", a ? ", " : "", (long long)told_extent(r, p->dims[a], "--in"));
        text_putc(&value, ']');
    }
    text_printf(&value, ":%d", seed);
    text_puts(t, " --in");
    put_quoted(t, value.data);
}

/* Dimensions that no tensor's extents tell. */
static void put_extents(Run *r, Text *t)
{
    for (size_t i = 0; i < r->n_params; i++)
        for (int a = 0; a < r->params[i].info.rank; a++) {
            const char *dim = r->params[i].info.dims[a];
            if (!extent_is_name(dim) || is_scalar(r, dim)) continue;
            if (extent_of(r, dim)->from != asked) continue;
            text_printf(t, " --set %s=%lld", dim, (long long)told_extent(r, dim, "--set"));
        }
}

/* Consts that have no value. */
static void put_consts(const Run *r, Text *t)
{
    for (const FrontParam *p = NULL; (p = run_next_without_value(r, p));) {
        const char *type = p->type_name ? p->type_name : "";
        const char *value = arena_printf(&r->tool->arena, "%d", CONST_VALUE);
        if (p->kind == FRONT_CONST_TYPE) value = "f32";
        else if (!strcmp(type, "bool")) value = "true";
        else if (*type == 'f' || *type == 'b') value = "1.0";
        text_printf(t, " --set %s=%s", p->name, value);
    }
}

void run_print_command(Run *r)
{
    Text t;
    int seed = 1;
    settle_extents(r);
    text_init(&t, &r->tool->arena);
    text_printf(&t, "tilec %s", command_info[r->args->command].name);
    put_quoted(&t, r->args->inputs.data[0]);
    put_given(&t, r->args);
    if (r->args->command == CMD_RUN) put_consts(r, &t);
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_SCALAR) {
            DType d = DT_F32;
            dtype_of(p->info.dtype, &d);
            if (!p->set && !p->info.has_default)
                text_printf(&t, " --set %s=%s", p->info.name, dtype_is_float(d) ? "0.5" : "1");
        } else if (p->info.kind != TILE_PARAM_OUT && !p->left_out) {
            if (!p->in) put_tensor(r, &t, &p->info, seed);
            seed++;
        }
    }
    put_extents(r, &t);
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (r->args->command == CMD_RUN && p->info.kind == TILE_PARAM_OUT && !p->out && !p->left_out)
            text_printf(&t, " --out %s=%s.npy", p->info.name, p->info.name);
    }
    format_file(r->tool->err, "for example:\n  %s\n", t.data);
}
