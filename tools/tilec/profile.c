/* profile.c: see profile.h. The form is that of "Trace Event Format": complete events, times in microseconds.
 */
#include "tools/tilec/profile.h"
#include "tools/tilec/json.h"
#include <math.h>

/* The number of the line: equal names share one. */
static int line_of(const Profile *p, size_t at)
{
    int line = 0;
    for (size_t i = 0; i < at; i++) {
        bool first = true;
        if (!strcmp(p->launches.data[i].name, p->launches.data[at].name)) break;
        for (size_t k = 0; k < i; k++)
            first &= strcmp(p->launches.data[k].name, p->launches.data[i].name) != 0;
        line += first;
    }
    return line;
}

static bool is_first(const Profile *p, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (!strcmp(p->launches.data[i].name, p->launches.data[at].name)) return false;
    return true;
}

/* The unit is part of the name, which the viewers show, and the key of the value. */
static void count_event(const CounterValue *v, double at, double value, Text *t)
{
    text_puts(t, ",\n {\"name\": ");
    Text name;
    text_init(&name, t->arena);
    text_printf(&name, "%s (%s)", v->name, v->unit);
    json_string(t, name.data);
    text_printf(t, ", \"cat\": \"counter\", \"ph\": \"C\", \"pid\": 1, \"ts\": %.3f, \"args\": {", at);
    json_string(t, v->unit);
    text_printf(t, isfinite(value) ? ": %.17g}}" : ": null}}", value);
}

static void counts_json(const Profile *p, Text *t)
{
    for (size_t i = 0; i < p->counts.len; i++) {
        const ProfileCounts *c = &p->counts.data[i];
        const ProfileLaunch *first = &p->launches.data[c->first], *last = &p->launches.data[c->end - 1];
        double begin = (double)(first->begin - p->launches.data[0].begin) * 1e-3,
               end = (double)(last->begin - p->launches.data[0].begin) * 1e-3 + last->ms * 1e3;
        for (size_t k = 0; k < c->n; k++) {
            count_event(&c->values[k], begin, c->values[k].value, t);
            count_event(&c->values[k], end, 0, t);
        }
    }
}

/* Launches of one name follow each other, so only the first of them looks for its line. */
void profile_json(const Profile *p, const char *device, Text *t)
{
    int line = 0;
    text_puts(t, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
                 " {\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": ");
    json_string(t, device);
    text_puts(t, "}}");
    for (size_t i = 0; i < p->launches.len; i++) {
        const ProfileLaunch *l = &p->launches.data[i];
        bool changed = !i || strcmp(l->name, p->launches.data[i - 1].name);
        if (changed) line = line_of(p, i);
        if (changed && is_first(p, i)) {
            text_printf(t,
                ",\n {\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": "
                "{\"name\": ",
                line);
            json_string(t, l->name);
            text_puts(t, "}}");
        }
        text_puts(t, ",\n {\"name\": ");
        json_string(t, l->name);
        text_printf(t,
            ", \"cat\": \"launch\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f}",
            line, (double)(l->begin - p->launches.data[0].begin) * 1e-3, l->ms * 1e3);
    }
    counts_json(p, t);
    text_puts(t, "\n]}\n");
}
