/* print.c: what kernels print on the CPU, a line at a time, to the context's callback. The threads of a
 * launch take turns. */
#include "runtime/launch/kernel.h"
#include <stdarg.h>
#include <stdio.h>

static void begin(PrintSink *s)
{
    Printer *p = (Printer *)s;
    pthread_mutex_lock(&p->lock);
    p->line.size = 0;
}

static void put(PrintSink *s, const char *format, ...)
{
    Printer *p = (Printer *)s;
    char piece[64];
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = p->context->on_diagnostic ? format_args(piece, sizeof piece, format, ap) : 0;
    size_t at = p->line.size;
    if (n > 0 && driver_blob_resize(p->context->alloc, &p->line,
                     at + (size_t)n + 2)) { /* When memory runs out, the line is shortened. */
        format_args((char *)p->line.data + at, (size_t)n + 1, format, again);
        p->line.size = at + (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

static void end(PrintSink *s)
{
    Printer *p = (Printer *)s;
    char *text = p->line.data;
    size_t n = p->line.size;
    if (n) {
        text[n] = 0;
        char *copy = context_alloc(p->context, n + 1);
        if (copy) memcpy(copy, text, n); /* zeroed: it ends */
        memcpy(text + n, "\n", 2);
        context_print(p->context, copy ? copy : "", text, p->kernel);
        context_free(p->context, copy, n + 1);
    }
    pthread_mutex_unlock(&p->lock);
}

void printer_open(Printer *p, tile_context *c, const char *kernel)
{
    *p = (Printer){ { begin, put, end }, .context = c, .kernel = kernel };
    pthread_mutex_init(&p->lock, NULL);
}

void printer_close(Printer *p)
{
    pthread_mutex_destroy(&p->lock);
    driver_blob_free(p->context->alloc, &p->line);
}
