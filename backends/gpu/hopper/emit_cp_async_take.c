/* emit_cp_async_take.c: of cp.async producers: from the staging area to a stage of wgmma's, shifted to where
 * the stage has it or transposed. */
#include "backends/gpu/hopper/emit_cp_async.h"
#include "backends/gpu/hopper/emit_roles.h"

/* Extracts the words of a run from the words around it. */
static void funnel(const CpAsync *x, const char *w, const char *around, const char *begins)
{
    Emit *e = x->e;
    int words = x->way.run / 4;
    if (x->way.run < 16) {
        for (int k = 0; k < words; k++)
            line(e, "%s[%d] = %s(%s[%d], %s[%d], 0x3210u + 0x1111u * (%s & 3));", w, k, use(e, "byte_perm"),
                around, k, around, k + 1, begins);
        return;
    }
    if (!x->way.uniform) {
        line(e, "%s(%s, %s, %s);", use(e, "funnel_b128"), w, around, begins);
        return;
    }
    /* Words are selected by branches, which cost less than selecting by instructions. */
    for (int word = 0; word < 4; word++) {
        line(e,
            word == 3 ? "else {"
            : word    ? "else if (%s >> 2 == %d) {"
                      : "if (%s >> 2 == %d) {",
            begins, word);
        e->indent++;
        for (int k = 0; k < 4; k++)
            line(e, "%s[%d] = %s(%s[%d], %s[%d], 0x3210u + 0x1111u * (%s & 3));", w, k, use(e, "byte_perm"),
                around, k + word, around, k + word + 1 < 8 ? k + word + 1 : 7, begins);
        end_block(e);
    }
}

/* Copies a run of each of `some` lines from line `g` of a class. `word` is the word in which its lines begin;
 * -1: the variable `begins` tells. All runs are read before the first is written, because the compiler keeps
 * the order of both. */
static void take_lines(const CpAsync *x, const char *from, const char *place, int word, int some)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int words = y->run / 4, raw = x->aligned ? words : y->run == 16 ? 8 : words + 1;
    line(e, "u32 around[%d][%d];", some, raw);
    begin_unrolled(e, "m", some);
    const char *at = str(e, "%s + (g + m) * %d", from, y->group * y->pitch);
    if (x->aligned) line(e, "%s(around[m], %s);", use(e, str(e, "lds_b%d", y->run * 8)), at);
    else if (y->run == 16)
        line(e, "%s(around[m], %s); %s(around[m] + 4, %s + 16);", use(e, "lds_b128"), at, use(e, "lds_b128"),
            at);
    else
        for (int k = 0; k <= words; k++)
            line(e, "%s(around[m] + %d, %s + (begins & 12) + %d);", use(e, "lds_b32"), k, at, 4 * k);
    end_block(e);
    begin_unrolled(e, "m", some);
    line(e, "u32 w[%d];", words);
    for (int k = 0, first = word > 0 ? word : 0; k < words; k++) {
        if (x->aligned) line(e, "w[%d] = around[m][%d];", k, k);
        else
            line(e, "w[%d] = %s(around[m][%d], around[m][%d], bytes);", k, use(e, "byte_perm"), first + k,
                first + k + 1 < raw ? first + k + 1 : raw - 1);
        if (x->heads) line(e, "w[%d] &= keep[%d];", k, k);
    }
    line(e, "%s(%s + (g + m) * %lld, w);", use(e, str(e, "sts_b%d", y->run * 8)), place,
        (long long)y->stage_step);
    end_block(e);
}

/* Copies the lines of a class, as evenly at once as CP_ASYNC_AT_ONCE allows: 6 are twice 3, 7 are 4 and 3. */
static void take_class(const CpAsync *x, const char *from, const char *place, int word)
{
    Emit *e = x->e;
    const int n = x->way.of_class, times = (n + CP_ASYNC_AT_ONCE - 1) / CP_ASYNC_AT_ONCE,
              some = (n + times - 1) / times, rest = n % some;
    directive(e, n > 2 * CP_ASYNC_AT_ONCE ? "#pragma unroll 2" : "#pragma unroll");
    line(e, "for (int g = 0; g < %d; g += %d) {", n - rest, some);
    e->indent++;
    take_lines(x, from, place, word, some);
    end_block(e);
    if (!rest) return;
    line(e, "{");
    e->indent++;
    line(e, "const int g = %d;", n - rest);
    take_lines(x, from, place, word, rest);
    end_block(e);
}

void cp_async_take_straight(const CpAsync *x, const char *staging, const char *to)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int words = y->run / 4, runs = (int)(y->line * y->bytes / y->run);
    const char *piece = y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per),
               *own = y->group > 1 ? str(e, "lane / %d", y->per) : "0";
    Index *c[TILE_MAX_RANK];
    if (x->heads) {
        line(e, "u32 keep[%d];", words);
        for (int k = 0; k < words; k++)
            line(e, "keep[%d] = %s(0, ~0u, %s - %d * %s - %d);", k, use(e, "low_bytes"),
                cp_async_scaled(e, x->f->first, y->bytes), y->run, piece, 4 * k);
    }
    directive(e, "#pragma unroll 1");
    line(e, "for (int k = 0; k < %d; k++) {", y->mine);
    e->indent++;
    if (y->classes % x->warps) line(e, "if (warp + %d * k >= %d) break;", x->warps, y->classes);
    /* All lines of a class begin at the same byte of a vector. */
    cp_async_line_coords(x, cp_async_straight_line(x, "k", "0"), c);
    if (!x->aligned)
        line(e, "const u32 begins = (%s) & 15, bytes = 0x3210u + 0x1111u * (begins & 3);",
            cp_async_line_bytes(x, c));
    line(e, "const i32 n = %s;", cp_async_straight_line(x, "k", own));
    line(e, "const u32 from = %s + (k * %d + %s) * %d + %d * %s;", staging, y->of_class * y->group, own,
        y->pitch, y->run, piece);
    cp_async_line_coords(x, "n", c);
    c[y->axis] = index_other(e, "%s", cp_async_scaled(e, piece, y->run / y->bytes));
    const char *o = cp_async_stage_place(x, c);
    line(e, "const u32 place = %s + %s;", to, o);
    if (runs < y->per) {
        line(e, "if (%s < %d) {", piece, runs);
        e->indent++;
    }
    if (x->aligned || y->run < 16) take_class(x, "from", "place", -1);
    /* Words are selected by branches, which cost less than selecting by instructions. */
    else
        for (int word = 0; word < 4; word++) {
            line(e,
                word == 3 ? "else {"
                : word    ? "else if (begins >> 2 == %d) {"
                          : "if (begins >> 2 == %d) {",
                word);
            e->indent++;
            take_class(x, "from", "place", word);
            end_block(e);
        }
    if (runs < y->per) end_block(e);
    end_block(e);
}

const char *cp_async_piece(const CpAsync *x, int part)
{
    if (x->way.per != 32) return str(x->e, "(lane %% %d)", x->way.per);
    return part ? str(x->e, "(lane + %d)", 32 * part) : "lane";
}

static void open_each(Emit *e)
{
    directive(e, "#pragma unroll");
    line(e, "for (int k = 0; k < %d; k++) {", CP_ASYNC_AT_ONCE);
    e->indent++;
    line(e, "const int v = u + k;");
}

static bool open_if(Emit *e, const char *cond)
{
    if (!*cond) return false;
    line(e, "if (%s) {", cond);
    e->indent++;
    return true;
}

/* Reads the words around the runs v = u + k from the staging area, if the lane has such a run (`has`). */
static void read_around(const CpAsync *x, const char *place, const char *has)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int words = y->run / 4;
    Index *c[TILE_MAX_RANK];
    open_each(e);
    bool some = open_if(e, has);
    if (x->aligned) line(e, "%s(around[k], %s);", use(e, str(e, "lds_b%d", y->run * 8)), place);
    else if (y->run == 16)
        line(e, "%s(around[k], %s); %s(around[k] + 4, %s + 16);", use(e, "lds_b128"), place,
            use(e, "lds_b128"), place);
    else {
        cp_async_unit_line(x, "v");
        cp_async_line_coords(x, "n", c);
        line(e, "const u32 begins = (%s) & 12;", cp_async_line_bytes(x, c));
        for (int k = 0; k <= words; k++)
            line(e, "%s(around[k] + %d, %s + begins + %d);", use(e, "lds_b32"), k, place, 4 * k);
    }
    if (some) end_block(e);
    end_block(e);
}

/* Writes the runs to the stage of the ring, whose address is `to`. */
static void put_runs(const CpAsync *x, const char *piece, const char *has, const char *to)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int words = y->run / 4;
    Index *c[TILE_MAX_RANK];
    open_each(e);
    const char *guard = both_conditions(e, cp_async_unit_line(x, "v"), has);
    cp_async_line_coords(x, "n", c);
    if (x->aligned) line(e, "u32 *const w = around[k];");
    else {
        line(e, "u32 w[%d];", words);
        line(e, "const u32 begins = (%s) & 15;", cp_async_line_bytes(x, c));
        funnel(x, "w", "around[k]", "begins");
    }
    if (x->heads) {
        open_if(e, x->f->first);
        line(e, "const i32 none = %s - %d * %s;", cp_async_scaled(e, x->f->first, y->bytes), y->run, piece);
        for (int k = 0; k < words; k++)
            line(e, "w[%d] = %s(0, w[%d], none - %d);", k, use(e, "low_bytes"), k, 4 * k);
        end_block(e);
    }
    c[y->axis] = index_other(e, "%s", cp_async_scaled(e, piece, y->run / y->bytes));
    bool some = open_if(e, guard);
    line(e, "%s(%s + %s, w);", use(e, str(e, "sts_b%d", y->run * 8)), to, cp_async_stage_place(x, c));
    if (some) end_block(e);
    end_block(e);
}

void cp_async_take_runs(const CpAsync *x, const char *staging, const char *to)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int words = y->run / 4, runs = (int)(y->line * y->bytes / y->run),
        raw = x->aligned     ? words
              : y->run == 16 ? 8
                             : words + 1;
    for (int part = 0; part < y->parts; part++) {
        const char *piece = cp_async_piece(x, part),
                   *own = y->group > 1 ? str(e, " + lane / %d", y->per) : "",
                   *place = str(
                       e, "%s + (v * %d%s) * %d + %d * %s", staging, y->group, own, y->pitch, y->run, piece);
        /* Read CP_ASYNC_AT_ONCE units before the first of them is written to the ring. */
        directive(e, "#pragma unroll 1");
        line(e, "for (int u = 0; u < %d; u += %d) {", y->share, CP_ASYNC_AT_ONCE);
        e->indent++;
        line(e, "u32 around[%d][%d];", CP_ASYNC_AT_ONCE, raw);
        const char *has = both_conditions(e, y->share % CP_ASYNC_AT_ONCE ? str(e, "v < %d", y->share) : "",
            (part + 1) * y->per > runs ? str(e, "%s < %d", piece, runs) : "");
        read_around(x, place, has);
        put_runs(x, piece, has, to);
        end_block(e);
    }
}

/* The stage of the ring is contiguous across the lines: a run is one element of each of several consecutive
 * lines. */
void cp_async_take_transposed(const CpAsync *x, const char *staging, const char *to)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int group = y->run / y->bytes, per = 4 / y->bytes;
    int64_t all = y->share / group * y->line;
    Index *c[TILE_MAX_RANK];
    const char *guard = all % 32 ? str(e, "u < %lld", (long long)all) : "", *bits = y->bytes == 1   ? "u8"
                                                                                    : y->bytes == 2 ? "u16"
                                                                                                    : "u32";
    fill_begin_some(e, "v", (int)((all + 31) / 32));
    line(e, "const i32 u = lane + 32 * v, at = u / %lld * %d, x = u %% %lld, n = warp * %d + at;",
        (long long)y->line, group, (long long)y->line, y->share);
    if ((int64_t)y->share * x->warps > y->lines)
        guard = both_conditions(e, guard, str(e, "n < %lld", (long long)y->lines));
    if (*guard) {
        line(e, "if (%s) {", guard);
        e->indent++;
    }
    line(e, "u32 w[%d];", y->run / 4);
    for (int k = 0; k < group; k++) {
        cp_async_line_coords(x, str(e, "n + %d", k), c);
        const char *begins = x->aligned ? "0" : str(e, "((%s) & 15)", cp_async_line_bytes(x, c));
        const char *one = str(e, "(u32)%s(%s + (at + %d) * %d + %s + %s)", use(e, str(e, "lds_%s", bits)),
            staging, k, y->pitch, begins, cp_async_scaled(e, "x", y->bytes));
        if (x->heads) one = str(e, "(x >= %s ? %s : 0)", x->f->first, one);
        if (k % per) line(e, "w[%d] |= %s << %d;", k / per, one, k % per * y->bytes * 8);
        else line(e, "w[%d] = %s;", k / per, one);
    }
    cp_async_line_coords(x, "n", c);
    c[y->axis] = index_variable(e, "x");
    line(e, "%s(%s + %s, w);", use(e, str(e, "sts_b%d", y->run * 8)), to, cp_async_stage_place(x, c));
    if (*guard) end_block(e);
    end_block(e);
}

/* The offset of the eight elements of chunk `c` in the stage of the ring. The row has its first ones at `o`,
 * and the chunk is `rows` rows further on. */
static const char *chunk_at(const CpAsync *x, const char *o, const char *rows, const char *c)
{
    Emit *e = x->e;
    int panel = x->stage->panel * 2;
    const char *from = *rows ? str(e, "%s + %s * %d", o, rows, 32 * x->stage->pitch) : o;
    if (x->way.shape[x->way.beside] * 2 <= panel) return str(e, "((%s) ^ %s * 16)", from, c);
    return str(e, "((%s) ^ %s %% %d * 16) + %s / %d * %d", from, c, panel / 16, c, panel / 16,
        x->stage->panel_bytes);
}

/* Declares the offset of the row of the ring's stage for element `at` of a row's window, in copy number k of
 * the window. */
static const char *block_place(const CpAsync *x, int k, const char *at)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int side = y->axis < y->split ? 0 : 1;
    const char *n = tmp(e, "n");
    Index *m[2];
    line(e, "const i32 %s = %lld + row * %lld + %s;", n, (long long)k * y->rows * y->width,
        (long long)y->width, at);
    m[side] = index_variable(e, n);
    m[1 - side] = index_number(e, 0);
    return shared_offset(e, x->stage, m);
}

/* The elements from .. to of a row's window are never in range. */
static void put_zeros(const CpAsync *x, const char *to, int k, int64_t from, int64_t end)
{
    Emit *e = x->e;
    int chunks = (int)x->way.shape[x->way.beside] / 8;
    if (from >= end) return;
    line(e, "for (int u = lane; u < %lld; u += 32) {", (long long)(end - from) * chunks);
    e->indent++;
    line(e, "const u32 none[4] = { 0, 0, 0, 0 };");
    const char *o = block_place(x, k, str(e, "%lld + u / %d", (long long)from, chunks));
    line(e, "%s(%s + %s, none);", use(e, "sts_b128"), to, chunk_at(x, o, "", str(e, "(u %% %d)", chunks)));
    end_block(e);
}

/* Sets the elements before the first one of the line to zero. */
static void zero_heads(const CpAsync *x, int some, int fours)
{
    Emit *e = x->e;
    open_if(e, x->f->first);
    begin_unrolled(e, "g", fours);
    begin_unrolled(e, "b", 4);
    line(e, "const bool none = 8 * (4 * g + b) + lane / 4 - before < %s;", x->f->first);
    begin_unrolled(e, "j", some);
    line(e, "d[j][g][b] = none ? 0 : d[j][g][b];");
    for (int k = 0; k < 4; k++) end_block(e);
}

/* Transposes blocks of 8 lines by 8 elements, four at a time. ldmatrix reads them transposed, and stmatrix
 * writes the eight neighbours of an element side by side, in each of the windows that contain it. Elements
 * before the first one of the line (in the vector in which it begins) and after its last one go to bytes of
 * the lane's own after the staging area. */
void cp_async_take_blocks(const CpAsync *x, const char *staging, const char *to)
{
    enum { MOST_TIMES = 16 };
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int chans = (int)y->shape[y->beside], fours = (y->vectors + 3) / 4, chunks = chans / 8,
        times = y->shifts ? y->shifts->n : 1;
    /* The number of blocks that are transposed at a time. Each block takes 4 registers for every place. */
    int some = chunks % 4 == 0 && fours <= 2 ? 4 : chunks % 2 ? 1 : 2;
    Index *c[TILE_MAX_RANK];
    const char *o[MOST_TIMES];
    int64_t lo[MOST_TIMES], hi[MOST_TIMES];
    if (times > MOST_TIMES) ir_fail(e->s, x->f->instr->loc, "a stage holds its window too many times");
    line(e, "const u32 nowhere = %s + %d + 16 * lane;", staging, y->pitch * y->share);
    cp_async_open_rows(x);
    cp_async_block_coords(x, "row", index_number(e, 0), c);
    if (x->aligned) line(e, "const i32 before = 0;");
    else line(e, "const i32 before = (i32)((%s) & 15) / 2;", cp_async_line_bytes(x, c));
    line(e, "const i32 place = lane - before;");
    for (int k = 0; k < times; k++) {
        int64_t shift = y->shifts ? y->shifts->v[k] - y->first : -y->first;
        lo[k] = shift > 0 ? shift : 0;
        hi[k] = shift + y->width < y->line ? shift + y->width : y->line;
        o[k] = block_place(x, k, shift ? str(e, "place + %lld", (long long)-shift) : "place");
        put_zeros(x, to, k, 0, lo[k] - shift);
        put_zeros(x, to, k, hi[k] - shift, y->width);
    }
    line(e, "const u32 from = %s + (k * %d + lane %% 8) * %d;", staging, chans, y->pitch);
    directive(e, "#pragma unroll %d", chunks / some > 2 ? 2 : 1);
    line(e, "for (int h = 0; h < %d; h += %d) {", chunks, some);
    e->indent++;
    line(e, "u32 d[%d][%d][4];", some, fours);
    begin_unrolled(e, "j", some);
    begin_unrolled(e, "g", fours);
    const char *piece =
        y->vectors % 4 ? str(e, "(4 * g + lane / 8 < %d ? 4 * g + lane / 8 : %d)", y->vectors, y->vectors - 1)
                       : "(4 * g + lane / 8)";
    line(e, "%s(d[j][g], from + (h + j) * %d + 16 * %s);", use(e, "ldmatrix_x4_trans"), 8 * y->pitch, piece);
    end_block(e);
    end_block(e);
    if (x->heads) zero_heads(x, some, fours);
    for (int k = 0; k < times; k++) {
        if (lo[k] >= hi[k]) continue;
        begin_unrolled(e, "j", some);
        begin_unrolled(e, "g", fours);
        const char *in = lo[k] ? str(e, "place + 32 * g - %lld", (long long)lo[k]) : "place + 32 * g";
        line(e, "%s((u32)(%s) < %lldu ? %s + %s : nowhere, d[j][g]);", use(e, "stmatrix_x4"), in,
            (long long)(hi[k] - lo[k]), to, chunk_at(x, o[k], "g", "(h + j)"));
        end_block(e);
        end_block(e);
    }
    end_block(e);
    end_block(e);
}
