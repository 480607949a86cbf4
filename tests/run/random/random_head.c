/* random_head.c: see random_head.h. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

bool random_mentions(const Arranger *a, const char *name)
{
    char mention[16];
    snprintf(mention, sizeof mention, "(%s[", name);
    return strstr(a->body, mention);
}

static bool is_step_order(const RandomTensor *t) { return !strcmp(t->name, "ORDER"); }

static bool has_tensor(const Arranger *a, const RandomHead *h, const RandomTensor *t)
{
    char bounded[16];
    if (is_step_order(t)) return h->order;
    snprintf(bounded, sizeof bounded, " %s ", t->name);
    return !h->always || strstr(h->always, bounded) || random_mentions(a, t->name);
}

/* Strides of a tensor, one in a while. */
static void view(Arranger *a, const RandomHead *h, const RandomTensor *t)
{
    RandomKernel *k = a->k;
    int rank = *t->dims != 0, depth = 0;
    for (const char *c = t->dims; *c; c++) {
        depth += (*c == '(') - (*c == ')');
        rank += *c == ',' && !depth;
    }
    if (is_step_order(t)) return;
    const char kind = chance(a, h->views) ? arrange_view(a, rank, !strcmp(t->role, "in")) : 0;
    if (kind && strlen(k->views) + 10 < sizeof k->views)
        arrange_append(k->views, sizeof k->views, "%s%s:%c", *k->views ? " " : "", t->name, kind);
}

static void parameter(Arranger *a, const RandomHead *h, const RandomTensor *t)
{
    RandomKernel *k = a->k;
    const char *type = *t->type == 'T' ? elem_name(a->type) : t->type;
    const size_t role = strcspn(t->role, "?");
    const bool optional = t->role[role] != 0, given = !optional || chance(a, 50);
    const bool odd = h->extremes && strchr("fb", *type) && strcmp(type, "bool") && !strcmp(t->role, "in") &&
                     !strncmp(t->fill, "int", 3);
    arrange_append(k->text, sizeof k->text, "%s%.*s %s %s[%s]%s",
        k->text[strlen(k->text) - 1] == '(' ? "" : ", ", (int)role, t->role, type, t->name,
        is_step_order(t) ? h->order : t->dims, optional ? "?" : "");
    arrange_append(k->launch, sizeof k->launch, " %s", given ? t->name : "-");
    if (!given) return;
    arrange_append(k->tensors, sizeof k->tensors, "%s%.*s %s[%s] %s %s%s", *k->tensors ? "; " : "", (int)role,
        t->role, t->name, t->dims, type, odd ? "extremes" : "", t->fill + (odd ? strlen("int") : 0));
    view(a, h, t);
}

void random_head(Arranger *a, const RandomHead *h, const char *clauses)
{
    RandomKernel *k = a->k;
    arrange_append(k->text, sizeof k->text, "%skernel random(", h->functions ? h->functions : "");
    arrange_append(k->launch, sizeof k->launch, "random");
    for (int t = 0; t < h->count; t++)
        if (has_tensor(a, h, &h->tensors[t])) parameter(a, h, &h->tensors[t]);
    arrange_append(k->text, sizeof k->text, "%s)\n%s", h->more ? h->more : "", clauses);
    for (const char *p = a->body, *q; *p; p = q) {
        q = strstr(p, ", T))");
        if (!q) q = p + strlen(p);
        arrange_append(k->text, sizeof k->text, "%.*s", (int)(q - p), p);
        if (*q) arrange_append(k->text, sizeof k->text, ", %s))", elem_name(a->type)), q += 5;
    }
    snprintf(k->bounds, sizeof k->bounds, "0 0 0");
}
