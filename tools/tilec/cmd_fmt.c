/* cmd_fmt.c: `tilec fmt`: files in the tree's style, in place. frontend/fmt/fmt.h says what that is. */
#include "tools/tilec/run/input.h"
#include "frontend/fmt/fmt.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

typedef struct Formatting {
    int64_t width;
    int differing; /* files that --check found */
} Formatting;

static int format_one(Input *in, Outputs *outputs)
{
    Formatting *formatting = in->user;
    const Source *source = diag_source(&in->session, in->file);
    bool std = !strcmp(in->path, "-"), check = args_has(in->args, FLAG_CHECK);
    Text out;
    text_init(&out, &in->tool->arena);
    text_puts(&out, in->marked ? BYTE_ORDER_MARK : "");
    size_t mark = out.len;
    if (!frontend_format(&in->session, in->file, (int)formatting->width, &out)) return EXIT_INPUT;
    bool same = out.len - mark == source->len &&
                (!source->len || !memcmp(out.data + mark, source->text, source->len));
    if (check) {
        if (!same) format_file(in->tool->out, "%s\n", source->name);
        formatting->differing += !same;
    } else if (std || !same) {
        outputs_add(in->tool, outputs, in->path, out.data ? out.data : "", out.len);
        outputs->list.data[outputs->list.len - 1].keeps_mode = true;
    }
    return EXIT_OK;
}

int cmd_fmt(Tool *t, const Args *a)
{
    Formatting formatting = { .width = FMT_WIDTH };
    int code = EXIT_OK;
    if (!a->inputs.len) return tool_usage(t, "no .tile file given (`tilec fmt --help` shows how)");
    if (!args_int(t, a, FLAG_WIDTH, FMT_WIDTH_LEAST, 1 << 20, &formatting.width)) return EXIT_USAGE;
    for (size_t i = 0; i < a->inputs.len && code != EXIT_USAGE; i++) {
        int one = input_with_text(t, a, a->inputs.data[i], format_one, &formatting);
        if (one) code = one;
    }
    return code ? code : formatting.differing ? EXIT_INPUT : EXIT_OK;
}
