/* extent_text.c: extents as a message or a manifest shows them: as written, with the kernel's integer consts
 * replaced by their values. */
#include "frontend/frontend.h"
#include <string.h>

/* The integer that a const is bound to, or has by default; NULL: no such const. */
static const FrontValue *const_value(
    const FrontKernel *k, const FrontBinding *b, size_t n, const char *name, size_t length)
{
    const FrontParam *p = NULL;
    for (int i = 0; i < k->n_params && !p; i++)
        if (k->params[i].kind == FRONT_CONST && strlen(k->params[i].name) == length &&
            !memcmp(k->params[i].name, name, length))
            p = &k->params[i];
    const FrontValue *v = p ? &p->default_value : NULL;
    for (size_t i = 0; p && i < n; i++)
        if (!strcmp(b[i].name, p->name)) v = &b[i].value;
    return v && v->kind == FRONT_INT ? v : NULL;
}

const char *frontend_extent_text(
    Session *s, const FrontKernel *k, const FrontBinding *b, size_t n_bindings, const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    Text out;
    text_init(&out, &s->arena);
    for (size_t n; *text; text += n) {
        n = strspn(text, letters);
        const FrontValue *v = n ? const_value(k, b, n_bindings, text, n) : NULL;
        n = n ? n : 1;
        if (v) text_printf(&out, "%lld", (long long)v->i);
        else text_write(&out, text, n);
    }
    return out.data ? out.data : "";
}
