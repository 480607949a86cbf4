/* explain_pictures.c: the pictures of `tilec explain --plot`. */
#include "tools/tilec/explain.h"

const char *const picture_name[PICTURE_COUNT] = { "timeline", "map", "access", "memory" };

bool explain_picture(Explained *x, PictureKind kind, const Timeline *line, Text *t)
{
    if (kind == PICTURE_TIMELINE) timeline_svg(x->title, line, t);
    return true;
}
