/* amx.c: products by the tile registers of AMX.
 *
 * A kernel with such products configures the eight tile registers at its start, all of 16 rows of 64 bytes,
 * and puts back at its end what its caller had. A product computes blocks of four tiles of the accumulator,
 * which stay in tile registers while K runs. Operands are packed in whole tiles (Buf.in_tiles): 16 rows of A
 * with 64 bytes along K each, and of B, whose panels have 16 columns, 16 groups of 4 bytes along K. An A that
 * lies so already is multiplied where it lies (in_place.c). At the edges of the accumulator, tiles go through
 * a block of memory of their own. */
#include "backends/cpu/product/mma.h"
#include <pthread.h>
#include <stdio.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* --- permission -------------------------------------------------------------------------------------- */

static const char *amx_refused;
static pthread_once_t amx_once = PTHREAD_ONCE_INIT;

/* Linux's document x86/xstate.rst: a process asks before its first tile instruction. The answer holds for all
 * threads, and for processes that are forked. */
static void ask(void)
{
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA))
        amx_refused = "the operating system refuses the state of tile registers";
#else
    amx_refused = "this operating system is not known to keep the state of tile registers";
#endif
}

const char *amx_permission(void)
{
    pthread_once(&amx_once, ask);
    return amx_refused;
}

/* --- instructions ------------------------------------------------------------------------------------ */

/* The instruction llvm.x86.NAME, whose first `n_tiles` operands are numbers of tile registers. With
 * amx_model, a call of tile_amx_NAME, to which the numbers are passed as 32-bit integers. */
static void tile_op(Gen *g, const char *name, const int *tiles, int n_tiles, LLVMValueRef *more, int n_more)
{
    LLVMValueRef v[4];
    LLVMTypeRef types[4];
    char text[64];
    int n = 0;
    for (int k = 0; k < n_tiles; k++)
        v[n++] = LLVMConstInt(g->target->amx_model ? g->i32 : g->i8, (unsigned)tiles[k], false);
    for (int k = 0; k < n_more; k++) v[n++] = more[k];
    format_text(text, sizeof text, "%s%s", g->target->amx_model ? "tile_amx_" : "llvm.x86.", name);
    if (!g->target->amx_model) {
        gen_intrinsic(g, text, NULL, 0, v, n);
        return;
    }
    for (int k = 0; k < n; k++) types[k] = LLVMTypeOf(v[k]);
    LLVMTypeRef type = LLVMFunctionType(g->voidt, types, (unsigned)n, false);
    LLVMValueRef f = LLVMGetNamedFunction(g->module, text);
    if (!f) f = LLVMAddFunction(g->module, text, type);
    LLVMBuildCall2(g->b, type, f, v, (unsigned)n, "");
}

static void tile_memory(Gen *g, const char *name, int tile, LLVMValueRef at, LLVMValueRef stride)
{ tile_op(g, name, &tile, 1, (LLVMValueRef[]){ at, stride }, 2); }

/* --- configuration ----------------------------------------------------------------------------------- */

/* 64 bytes: the number of the palette, 15 bytes of zeros, the bytes of a row of each register in 16 bits
 * each, and from byte 48 on its rows. */
enum { CONFIG_BYTES = 64, CONFIG_ROW_BYTES = 16, CONFIG_ROWS = 48, N_TILES = 8 };

static LLVMValueRef config(Gen *g, const char *name)
{
    LLVMValueRef v = gen_alloca(g, LLVMArrayType2(g->i8, CONFIG_BYTES), name);
    LLVMSetAlignment(v, CONFIG_BYTES);
    return v;
}

void amx_begin(Gen *g)
{
    LLVMValueRef own = config(g, "tiles"), bytes[CONFIG_BYTES];
    g->amx_callers = config(g, "callers_tiles");
    tile_op(g, "sttilecfg", NULL, 0, &g->amx_callers, 1);
    for (int k = 0; k < CONFIG_BYTES; k++) bytes[k] = LLVMConstInt(g->i8, 0, false);
    bytes[0] = LLVMConstInt(g->i8, 1, false);
    for (int k = 0; k < N_TILES; k++) {
        bytes[CONFIG_ROW_BYTES + 2 * k] = LLVMConstInt(g->i8, AMX_ROW_BYTES, false);
        bytes[CONFIG_ROWS + k] = LLVMConstInt(g->i8, AMX_ROWS, false);
    }
    LLVMBuildStore(g->b, LLVMConstVector(bytes, CONFIG_BYTES), own);
    tile_op(g, "ldtilecfg", NULL, 0, &own, 1);
}

/* Registers are not kept across calls, by the psABI; the configuration is put back for a caller that has one.
 */
void amx_end(Gen *g)
{
    LLVMValueRef palette = LLVMBuildLoad2(g->b, g->i8, g->amx_callers, "");
    If f;
    gen_if(g, &f, LLVMBuildICmp(g->b, LLVMIntEQ, palette, LLVMConstInt(g->i8, 0, false), ""));
    tile_op(g, "tilerelease", NULL, 0, NULL, 0);
    gen_else(g, &f);
    tile_op(g, "ldtilecfg", NULL, 0, &g->amx_callers, 1);
    gen_endif(g, &f);
}

/* Products are alike if the same code serves: only addresses differ. */
Step *amx_before(const Steps *in, const Step *s)
{
    const Value *sums = ir_operand(s->instr, 2);
    if (!mma_is_amx(s->mma) || ir_use_count(sums) != 1) return NULL;
    for (Step *i = in->first; i; i = i->next) {
        if (i->kind != STEP_MMA || ir_result(i->instr) != sums) continue;
        const Step *first = i;
        int n = 2;
        for (; first->with; first = first->with) n++;
        const Type *a = ir_operand(i->instr, 0)->type, *b = ir_operand(i->instr, 1)->type;
        bool alike = i->mma == s->mma && !i->thin && a->dtype == ir_operand(s->instr, 0)->type->dtype &&
                     b->dtype == ir_operand(s->instr, 1)->type->dtype && i->b->depth == s->b->depth;
        return alike && n <= MAX_JOINED ? i : NULL;
    }
    return NULL;
}

/* --- the product ------------------------------------------------------------------------------------- */

static const char *instruction(const Step *s)
{
    bool ua = s->a->dtype == DT_U8, ub = s->b->dtype == DT_U8;
    if (s->mma == MMA_AMX_BF16) return "tdpbf16ps";
    if (s->mma == MMA_AMX_F16) return "tdpfp16ps";
    return ua ? ub ? "tdpbuud" : "tdpbusd" : ub ? "tdpbsud" : "tdpbssd";
}

/* A block of tiles of the accumulator: `rows` x `columns` tiles, of whose last ones `last_rows` rows and
 * `last_columns` columns exist. */
typedef struct TileBlock {
    int rows, columns, last_rows, last_columns;
    LLVMValueRef row, panel; /* the first row, and the number of the first panel */
    LLVMValueRef edge;       /* memory of one tile */
} TileBlock;

static int block_rows(const TileBlock *b, int r) { return r == b->rows - 1 ? b->last_rows : AMX_ROWS; }
static int block_columns(const TileBlock *b, int c)
{ return c == b->columns - 1 ? b->last_columns : AMX_ROWS; }

/* Moves the part of a tile that exists between the accumulator and the memory of one tile. */
static void copy_edge(MmaProduct *x, const TileBlock *b, LLVMValueRef at, int rows, int columns, bool out)
{
    Gen *g = x->g;
    Loop l;
    LLVMValueRef r = gen_loop(g, &l, gen_int(g, 0), gen_int(g, rows), 1);
    LLVMValueRef tile = gen_ptr(g, b->edge, gen_imul(g, r, AMX_ROW_BYTES)),
                 row = gen_ptr(g, at, gen_imul(g, r, 4 * x->n));
    LLVMBuildMemCpy(g->b, out ? row : tile, 4, out ? tile : row, 4, gen_int(g, 4 * columns));
    gen_loop_end(g, &l);
}

static void move_accumulators(MmaProduct *x, const TileBlock *b, LLVMValueRef base, bool out)
{
    Gen *g = x->g;
    for (int r = 0; r < b->rows; r++)
        for (int c = 0; c < b->columns; c++) {
            int tile = r * b->columns + c, rows = block_rows(b, r), columns = block_columns(b, c);
            if (!base) {
                tile_op(g, "tilezero", &tile, 1, NULL, 0);
                continue;
            }
            LLVMValueRef element =
                gen_iadd(g, gen_imul(g, gen_iadd(g, b->row, gen_int(g, r * AMX_ROWS)), x->n),
                    gen_imul(g, gen_iadd(g, b->panel, gen_int(g, c)), AMX_ROWS));
            LLVMValueRef at = gen_ptr(g, base, gen_imul(g, element, 4));
            bool whole = rows == AMX_ROWS && columns == AMX_ROWS;
            if (!whole && !out) copy_edge(x, b, at, rows, columns, false);
            tile_memory(g, out ? "tilestored64" : "tileloadd64", tile, whole ? at : b->edge,
                gen_int(g, whole ? 4 * x->n : AMX_ROW_BYTES));
            if (!whole && out) copy_edge(x, b, at, rows, columns, true);
        }
}

/* The load of a tile of A. Blocks of rows follow one another, and the panels of B are read again for each: an
 * A that does not fit the first cache beside them is loaded by the instruction that says that it is not used
 * again soon, which leaves the panels there. */
static const char *load_of_a(const MmaProduct *x)
{
    enum { PANELS = 2, GROUP_BYTES = AMX_ROW_BYTES / AMX_ROWS };
    int64_t deep = x->n_parts * x->s->b->depth;
    int64_t bytes = x->m * deep * GROUP_BYTES + PANELS * deep * AMX_ROW_BYTES;
    return bytes > x->g->target->first_cache ? "tileloaddt164" : "tileloadd64";
}

/* Four accumulators leave registers for two tiles of A and two of B; of a single row or column of tiles, the
 * operand of which there are four takes three registers in turn. */
static void along_k(MmaProduct *x, const TileBlock *b, int part)
{
    Gen *g = x->g;
    Step *s = x->s;
    enum { A0 = 4 };
    int n_a = b->rows > 2 ? 2 : b->rows, n_b = N_TILES - A0 - n_a, loaded[4] = { -1, -1, -1, -1 };
    int64_t panel = s->b->depth * AMX_ROW_BYTES;
    LLVMValueRef a[4], a_row = x->parts[part].a_row, b_row = gen_int(g, AMX_ROW_BYTES);
    for (int r = 0; r < b->rows; r++) {
        LLVMValueRef row = gen_iadd(g, b->row, gen_int(g, r * AMX_ROWS));
        a[r] = gen_ptr(g, x->parts[part].a, LLVMBuildMul(g->b, row, a_row, ""));
    }
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->b->depth / AMX_ROWS), 1);
    LLVMValueRef bk = gen_ptr(g, x->parts[part].b,
        gen_iadd(g, gen_imul(g, b->panel, panel), gen_imul(g, k, AMX_ROWS * AMX_ROW_BYTES)));
    for (int r = 0; r < b->rows; r++) {
        int of_a = A0 + r % n_a;
        tile_memory(g, load_of_a(x), of_a, gen_ptr(g, a[r], gen_imul(g, k, AMX_ROW_BYTES)), a_row);
        for (int c = 0; c < b->columns; c++) {
            int of_b = A0 + n_a + c % n_b;
            if (loaded[c % n_b] != c)
                tile_memory(g, "tileloadd64", of_b, gen_ptr(g, bk, gen_int(g, c * panel)), b_row);
            loaded[c % n_b] = c;
            tile_op(g, instruction(s), (int[]){ r * b->columns + c, of_a, of_b }, 3, NULL, 0);
        }
    }
    gen_loop_end(g, &l);
}

static void tile_block(MmaProduct *x, const TileBlock *b)
{
    move_accumulators(x, b, x->from, false);
    for (int part = x->n_parts - 1; part >= 0; part--) along_k(x, b, part);
    move_accumulators(x, b, x->to, true);
}

/* Sizes along one axis: `whole` blocks of `size` tiles, and what is left: `tiles` tiles, of whose last one
 * `last` positions exist. */
typedef struct Division {
    int64_t whole;
    int size, tiles, last;
} Division;

static Division divide(int64_t n, int size)
{
    int64_t whole = n / (size * AMX_ROWS), left = n - whole * size * AMX_ROWS;
    int tiles = (int)((left + AMX_ROWS - 1) / AMX_ROWS);
    return (Division){ whole, size, tiles, (int)left - (tiles - 1) * AMX_ROWS };
}

static int64_t blocks_of(const Division *d) { return d->whole + (d->tiles > 0); }

/* All blocks of rows of the columns that the block has. */
static void along_rows(MmaProduct *x, TileBlock *b, const Division *rows, LLVMValueRef first)
{
    Gen *g = x->g;
    Loop l;
    b->rows = rows->size;
    b->last_rows = AMX_ROWS;
    if (rows->whole) {
        LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, rows->whole), 1);
        b->row = gen_imul(g, i, rows->size * AMX_ROWS);
        mma_fetch(x, gen_iadd(g, first, i));
        tile_block(x, b);
        gen_loop_end(g, &l);
    }
    if (!rows->tiles) return;
    b->rows = rows->tiles;
    b->last_rows = rows->last;
    b->row = gen_int(g, rows->whole * rows->size * AMX_ROWS);
    mma_fetch(x, gen_iadd(g, first, gen_int(g, rows->whole)));
    tile_block(x, b);
}

/* The panels of a block stay in the first cache for all blocks of rows. */
void amx_product(MmaProduct *x)
{
    Gen *g = x->g;
    TileBlock b = { .last_columns = AMX_ROWS };
    Division rows = divide(x->m, x->s->mr), columns = divide(x->n, x->s->nv);
    x->blocks = blocks_of(&rows) * blocks_of(&columns);
    Loop l;
    if (x->m % AMX_ROWS || x->n % AMX_ROWS) {
        b.edge = gen_alloca(g, LLVMArrayType2(g->i8, AMX_ROWS * AMX_ROW_BYTES), "edge");
        LLVMSetAlignment(b.edge, 64);
    }
    b.columns = columns.size;
    if (columns.whole) {
        LLVMValueRef j = gen_loop(g, &l, gen_int(g, 0), gen_int(g, columns.whole), 1);
        b.panel = gen_imul(g, j, columns.size);
        along_rows(x, &b, &rows, gen_imul(g, j, blocks_of(&rows)));
        gen_loop_end(g, &l);
    }
    if (!columns.tiles) return;
    b.columns = columns.tiles;
    b.last_columns = columns.last;
    b.panel = gen_int(g, columns.whole * columns.size);
    along_rows(x, &b, &rows, gen_int(g, columns.whole * blocks_of(&rows)));
}
