/* explain_html.c: `tilec explain --html`: one page of one variant, without anything from outside. Four panes
 * show the source, the tile IR, the kernel IR and the emitted text. Each line carries the line of the source
 * that it implements, as data-l; the page's script marks all lines of the line under the pointer. */
#include "tools/tilec/explain/explain_page.h"
#include <stdlib.h>

static const char style[] =
    "body{font-family:sans-serif;margin:16px;color:#222}h1{font-size:18px}h2{font-size:15px;margin:24px 0 "
    "8px}"
    "nav a{margin-right:14px}.panes{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:8px}"
    ".pane{min-width:0}.pane h3{font-size:12px;margin:0 0 4px}"
    ".code{height:70vh;overflow:auto;border:1px solid #bbb;font:11px/1.45 monospace;margin:0;white-space:pre}"
    ".code span{display:block;min-width:max-content;padding:0 6px}.code span.on{background:#ffe28a}"
    ".code span.here{outline:1px solid #d55e00;outline-offset:-1px}"
    "pre.report{border:1px solid #bbb;padding:8px;overflow:auto;font:12px/1.4 monospace}"
    ".picture{overflow:auto;border:1px solid #ddd;margin:0 0 12px}.picture svg{display:block}"
    "@media(max-width:900px){.panes{grid-template-columns:repeat(2,minmax(0,1fr))}}\n";

/* Lines of one number in all panes; the first in each other pane comes into view on a click. */
static const char script[] =
    "(function(){var all={},panes=document.querySelectorAll('.code'),marked=[];"
    "document.querySelectorAll('.code span[data-l]').forEach(function(e){"
    "(all[e.dataset.l]=all[e.dataset.l]||[]).push(e)});"
    "function clear(){marked.forEach(function(e){e.classList.remove('on','here')});marked=[]}"
    "function line(e){return e.target.closest?e.target.closest('.code span[data-l]'):null}"
    "function show(at){clear();if(!at)return;marked=(all[at.dataset.l]||[]).slice();"
    "marked.forEach(function(e){e.classList.add('on')});at.classList.add('here')}"
    "function reach(at){panes.forEach(function(p){if(p.contains(at))return;"
    "var e=p.querySelector('span[data-l=\"'+at.dataset.l+'\"]');"
    "if(e)p.scrollTop=e.offsetTop-p.offsetTop-p.clientHeight/3})}"
    "document.addEventListener('mouseover',function(e){var at=line(e);if(at)show(at)});"
    "document.addEventListener('click',function(e){var at=line(e);if(at){show(at);reach(at)}});"
    "document.querySelectorAll('a[data-go]').forEach(function(a){a.addEventListener('click',function(){"
    "var at=document.getElementById('s'+a.dataset.go);if(at){show(at);reach(at)}})});"
    "document.documentElement.dataset.ready=Object.keys(all).length})();\n";

/* The number in " loc(N)" at the end of a printed line of IR, which is then cut off; 0: none. */
static int cut_loc(const char *line, size_t *n)
{
    size_t end = *n, digits = 0;
    if (end < 6 || line[end - 1] != ')') return 0;
    for (end--; end > 0 && line[end - 1] >= '0' && line[end - 1] <= '9'; end--) digits++;
    if (!digits || end < 5 || strncmp(line + end - 5, " loc(", 5)) return 0;
    int value = atoi(line + end);
    *n = end - 5;
    return value;
}

/* The line of "#line N "file"", if the file is the source itself; 0: no such directive; -1: another file. */
static int line_directive(const Explained *x, const char *line, size_t n)
{
    char *end;
    if (n < 8 || strncmp(line, "#line ", 6)) return 0;
    long value = strtol(line + 6, &end, 10);
    const char *name = diag_source(&x->in->session, x->in->file)->name;
    size_t len = strlen(name);
    return *end == ' ' && end[1] == '"' && !strncmp(end + 2, name, len) && end[2 + len] == '"' ? (int)value
                                                                                               : -1;
}

typedef enum PaneKind { PANE_SOURCE, PANE_IR, PANE_TEXT } PaneKind;

static void pane(const Explained *x, PaneKind kind, const char *id, const char *title, const char *text,
    size_t size, Text *t)
{
    int at = 0, number = 0;
    text_printf(t, "<div class=\"pane\"><h3 id=\"%s\">%s</h3><div class=\"code\">", id, title);
    for (const char *p = text, *end = text + size; p < end;) {
        size_t n = (size_t)(end - p), all;
        const char *stop = memchr(p, '\n', n);
        if (stop) n = (size_t)(stop - p);
        all = n;
        number++;
        int directive = kind == PANE_TEXT ? line_directive(x, p, n) : 0;
        if (directive) at = directive > 0 ? directive : 0;
        else {
            int line = kind == PANE_SOURCE ? number : kind == PANE_IR ? cut_loc(p, &n) : at;
            if (kind == PANE_SOURCE)
                text_printf(t, "<span id=\"s%d\" data-l=\"%d\">%4d  ", number, number, number);
            else if (line) text_printf(t, "<span data-l=\"%d\">", line);
            else text_puts(t, "<span>");
            draw_escape(t, arena_strndup(t->arena, p, n));
            text_puts(t, n ? "</span>" : "&#8203;</span>");
        }
        p += all + 1;
    }
    text_puts(t, "</div></div>\n");
}

static void section(Text *t, const char *id, const char *title)
{ text_printf(t, "<h2 id=\"%s\">%s</h2>\n", id, title); }

/* A report; "line 16" in it leads to that line of the source. */
static void report_text(const Text *report, Text *t)
{
    text_puts(t, "<pre class=\"report\">");
    for (const char *p = report->data ? report->data : "", *end = p + report->len; p < end;) {
        const char *at = strstr(p, "line ");
        size_t digits = at ? strspn(at + 5, "0123456789") : 0;
        if (!at) {
            draw_escape(t, arena_strndup(t->arena, p, (size_t)(end - p)));
            break;
        }
        draw_escape(t, arena_strndup(t->arena, p, (size_t)(at - p)));
        const char *number = arena_strndup(t->arena, at + 5, digits);
        if (digits) text_printf(t, "<a href=\"#s%s\" data-go=\"%s\">line %s</a>", number, number, number);
        else text_puts(t, "line ");
        p = at + 5 + digits;
    }
    text_puts(t, "</pre>\n");
}

static void picture(Explained *x, PictureKind kind, const Timeline *line, Text *t)
{
    text_puts(t, "<div class=\"picture\">");
    explain_picture(x, kind, line, t);
    text_puts(t, "</div>\n");
}

static void panes(Explained *x, Text *t)
{
    Session *s = &x->in->session;
    const Source *source = diag_source(s, x->in->file);
    Text ir, kernel;
    text_init(&ir, &s->arena);
    text_init(&kernel, &s->arena);
    ir_print_with(x->tile->module, IR_PRINT_LOC, &ir);
    ir_print_with(x->kernel->module, IR_PRINT_LOC, &kernel);
    text_puts(t, "<div class=\"panes\">\n");
    pane(x, PANE_SOURCE, "source", "source", source->text, source->len, t);
    pane(x, PANE_IR, "tile-ir", "tile IR after the passes", ir.data, ir.len, t);
    pane(x, PANE_IR, "kernel-ir", "kernel IR", kernel.data, kernel.len, t);
    pane(x, PANE_TEXT, "emitted", "emitted text", x->code.text, x->code.text_len, t);
    text_puts(t, "</div>\n");
}

void explain_page(Explained *x, const Timeline *line, const Text *report, const Roofline *roofline, Text *t)
{
    static const char *const parts[][2] = { { "code", "code" }, { "passes", "passes and schedule" },
        { "timeline", "timeline" }, { "memory", "memory" }, { "pictures", "pictures" },
        { "roofline", "roofline" } };
    Text memory;
    text_init(&memory, &x->in->session.arena);
    explain_memory(x, &memory);
    text_puts(t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    draw_escape(t, x->title);
    text_printf(t, "</title><style>%s</style></head><body>\n<h1>", style);
    draw_escape(t, x->title);
    text_puts(t, "</h1>\n<nav>");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        text_printf(t, "<a href=\"#%s\">%s</a>", parts[k][0], parts[k][1]);
    text_puts(t, "</nav>\n");
    section(t, "code",
        "Code: the lines under the pointer belong to one line of the source; a click brings them into view");
    panes(x, t);
    section(t, "passes", "Passes, schedule and resources");
    report_text(report, t);
    section(t, "timeline", "Timeline");
    picture(x, PICTURE_TIMELINE, line, t);
    section(t, "memory", "Memory");
    report_text(&memory, t);
    section(t, "pictures", "Programs, threads, registers and banks");
    if (explain_has_map(x)) picture(x, PICTURE_MAP, line, t);
    picture(x, PICTURE_ACCESS, line, t);
    picture(x, PICTURE_MEMORY, line, t);
    section(t, "roofline", "Roofline");
    text_puts(t, "<div class=\"picture\">");
    if (roofline->points.len && roofline_known(x)) roofline_draw(roofline, t);
    else text_puts(t, "no roofs are known of this device");
    text_printf(t, "</div>\n<script>%s</script></body></html>\n", script);
}
