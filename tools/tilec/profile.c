/* profile.c: see profile.h. The form is that of "Trace Event Format": complete events, times in microseconds.
 */
#include "tools/tilec/profile.h"
#include "tools/tilec/json.h"

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
    text_puts(t, "\n]}\n");
}
