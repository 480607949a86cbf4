/* print_tensor.c: a tensor as text, as NumPy shows arrays: brackets for each axis, columns below each other,
 * and
 * `...` for the middle of a large tensor. */
#include "ir/support/number.h"
#include "tools/tilec/run/tensor.h"
#include <math.h>

enum { MOST = 1000, EDGE = 3, COLUMNS = 75, DIGITS = 8, ELEMENT_TEXT = 32 };

typedef struct Printing {
    const HostTensor *h;
    bool elided;
    int width; /* of the widest element that is shown */
    Text *out;
} Printing;

/* The fewest digits, at most DIGITS, that read back as the value in its type. */
static void float_text(DType d, double v, char *out)
{
    char *end;
    if (isnan(v)) {
        format_text(out, ELEMENT_TEXT, "nan");
        return;
    }
    for (int digits = 1; digits <= DIGITS; digits++) {
        format_text(out, ELEMENT_TEXT, "%.*g", digits, v);
        if (scalar_round(d, number_read(out, &end)) == v) return;
    }
}

static void element_text(const HostTensor *h, const int64_t *index, char *out)
{
    int64_t at = 0;
    DType d = h->dtype;
    for (int a = 0; a < h->rank; a++) at += index[a] * h->strides[a];
    Scalar s = scalar_load(d, (const char *)h->data + at * dtype_bytes(d));
    if (dtype_is_float(d)) float_text(d, s.f, out);
    else if (d == DT_BOOL) format_text(out, ELEMENT_TEXT, "%s", s.i ? "true" : "false");
    else format_text(out, ELEMENT_TEXT, dtype_is_signed(d) ? "%lld" : "%llu", (long long)s.i);
}

/* The position behind i on an axis of `extent` elements; -1 where the middle is left out. */
static int64_t next_shown(const Printing *p, int64_t i, int64_t extent)
{ return p->elided && extent > 2 * EDGE && i == EDGE - 1 ? -1 : i + 1; }

static void measure(Printing *p, int axis, int64_t *index)
{
    char text[ELEMENT_TEXT];
    if (axis == p->h->rank) {
        element_text(p->h, index, text);
        if ((int)strlen(text) > p->width) p->width = (int)strlen(text);
        return;
    }
    int64_t extent = p->h->shape[axis];
    for (int64_t i = 0; i < extent; i = next_shown(p, i, extent) < 0 ? extent - EDGE : i + 1) {
        index[axis] = i;
        measure(p, axis + 1, index);
    }
}

/* One row; a line that would be too long goes on below its first element. */
static void print_row(Printing *p, int axis, int64_t *index)
{
    char text[ELEMENT_TEXT];
    int64_t extent = p->h->shape[axis];
    int column = axis + 1;
    text_putc(p->out, '[');
    for (int64_t i = 0, next; i < extent; i = next) {
        index[axis] = i;
        element_text(p->h, index, text);
        if (i && column + 1 + p->width > COLUMNS) {
            column = axis + 1;
            text_printf(p->out, "\n%*s", column, "");
        } else if (i) {
            text_putc(p->out, ' ');
            column++;
        }
        text_printf(p->out, "%*s", p->width, text);
        column += p->width;
        next = next_shown(p, i, extent);
        if (next >= 0) continue;
        text_puts(p->out, " ...");
        column += 4;
        next = extent - EDGE;
    }
    text_putc(p->out, ']');
}

static void print_axis(Printing *p, int axis, int64_t *index)
{
    int last = p->h->rank - 1;
    int64_t extent = p->h->shape[axis];
    if (axis == last) {
        print_row(p, axis, index);
        return;
    }
    text_putc(p->out, '[');
    for (int64_t i = 0, next; i < extent; i = next) {
        if (i) {
            for (int k = axis; k < last; k++) text_putc(p->out, '\n');
            text_printf(p->out, "%*s", axis + 1, "");
        }
        index[axis] = i;
        print_axis(p, axis + 1, index);
        next = next_shown(p, i, extent);
        if (next >= 0) continue;
        for (int k = axis; k < last; k++) text_putc(p->out, '\n');
        text_printf(p->out, "%*s...", axis + 1, "");
        next = extent - EDGE;
    }
    text_putc(p->out, ']');
}

void tensor_print(const HostTensor *h, const char *name, Text *out)
{
    Printing p = { .h = h, .out = out };
    char text[ELEMENT_TEXT];
    int64_t index[TILE_MAX_RANK] = { 0 }, n = 1;
    text_printf(out, "%s: %s[", name, dtype_name(h->dtype));
    for (int a = 0; a < h->rank; a++) {
        text_printf(out, "%s%lld", a ? ", " : "", (long long)h->shape[a]);
        n *= h->shape[a];
    }
    text_puts(out, "]\n");
    p.elided = n > MOST;
    if (n == 0) {
        text_puts(out, "[]");
    } else if (h->rank == 0) {
        element_text(h, index, text);
        text_puts(out, text);
    } else {
        measure(&p, 0, index);
        print_axis(&p, 0, index);
    }
    text_putc(out, '\n');
}
