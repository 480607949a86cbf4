/* json.c: see json.h. */
#include "tools/tilec/json.h"

void json_string(Text *t, const char *s)
{
    text_putc(t, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') text_printf(t, "\\%c", *s);
        else if ((unsigned char)*s < 32) text_printf(t, "\\u%04x", *s);
        else text_putc(t, *s);
    }
    text_putc(t, '"');
}
