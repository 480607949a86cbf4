/* product.c: ldmatrix, mma.sync, wgmma. PTX ISA 9.7.14.5 (fragments of a warp), 9.7.15.5 (wgmma: fragments,
 * descriptors), 9.7.15.7 (fence, commit, wait).
 *
 * Each warp of a warpgroup does its 16 rows of a wgmma by itself. Operands are read when the seed says,
 * between the issue and the wait that covers it; until then the accumulators hold poison, shared memory that
 * is read may not be written, and registers of A may not change. */
#include "tests/emu/core.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 256, MAX_K = 32 };
static const uint32_t poison = 0x7fbadbad; /* a NaN */

static bool is_int(EmuType t) { return t >= EMU_S8; }

/* c[16][n] += a[16][k] b[k][n] */
static void multiply(float *restrict c, const float *restrict a, const float *restrict b, int n, int k)
{
    for (int i = 0; i < 16; i++)
        for (int x = 0; x < k; x++) {
            float f = a[i * MAX_K + x];
            for (int j = 0; j < n; j++) c[i * n + j] += f * b[x * n + j];
        }
}

EmuSums emu_sums;

static bool is_fp8(EmuType t) { return t == EMU_E4M3 || t == EMU_E5M2; }

/* c[16][n] = sum (the same) + a[16][k] b[k][n], `step` positions of K at a time, as the unit adds them. */
static void multiply_short(
    float *c, const float *a, EmuType ta, const float *b, EmuType tb, int n, int k, int step)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < n; j++)
            for (int x = 0; x < k; x += step)
                c[i * n + j] =
                    emu_short_step(c[i * n + j], a + i * MAX_K + x, ta, b + x * n + j, n, tb, step);
}

/* A's fragment: register j of lane l holds row l/4 + 8 (j mod 2), elements from (j/2) 4 e + e (l mod 4) on, e
 * to a word. */
static void fragment_a(float *a, const uint32_t *lane_words[32], EmuType t)
{
    int e = 4 / emu_element_bytes(t);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < 4; j++)
            emu_decode((const uint8_t *)&lane_words[l][j], e, t,
                a + (l / 4 + 8 * (j & 1)) * MAX_K + (j >> 1) * 4 * e + e * (l % 4), 1);
}

/* The accumulator's: value i of lane l is row l/4 + 8 (i/2 mod 2), column 8 (i/4) + 2 (l mod 4) + i mod 2. */
static int fragment_c(int l, int i, int n)
{ return (l / 4 + 8 * (i >> 1 & 1)) * n + (i >> 2) * 8 + 2 * (l % 4) + (i & 1); }

static void add_to(uint32_t *word, float x, bool integer)
{
    float y;
    if (integer) {
        *word += (uint32_t)(int32_t)x;
        return;
    }
    memcpy(&y, word, 4);
    y += x;
    memcpy(word, &y, 4);
}

/* --- a warp's own ------------------------------------------------------------------------------------ */

/* Word j of lane l of an 8x8 matrix of 16-bit elements is row l/4, columns 2 (l mod 4).. */
void emu_ldmatrix(uint32_t *d, uint32_t address, int count, bool trans)
{
    address = emu_own(address);
    const EmuWord *w = emu_exchange("ldmatrix", &address, 4);
    int lane = emu.fiber->lane;
    if (lane < 8 * count) {
        if (address % 16) emu_fail("ldmatrix of a row at %u, not aligned to 16", address);
        emu_check_read(address, 16, GENERIC);
        emu_mark_read(emu.warp, address, 16, emu.warp->clock.at[emu.warp->index], lane);
    }
    for (int j = 0; j < count; j++) {
        if (!trans) {
            memcpy(&d[j], emu_at((uint32_t)w[8 * j + lane / 4].w[0], 16) + lane % 4 * 4, 4);
            continue;
        }
        uint16_t h[2];
        for (int k = 0; k < 2; k++)
            memcpy(&h[k], emu_at((uint32_t)w[8 * j + 2 * (lane % 4) + k].w[0], 16) + lane / 4 * 2, 2);
        d[j] = h[0] | (uint32_t)h[1] << 16;
    }
}

/* Lane 8 j + r has the address of row r of matrix j; lane l holds row l/4, columns 2 (l mod 4).. of each; or
 * column and rows. */
void emu_stmatrix(uint32_t address, const uint32_t *words, int count, bool trans)
{
    address = emu_own(address);
    const EmuWord *w = emu_exchange("stmatrix", &address, 4);
    uint32_t to[8];
    int lane = emu.fiber->lane, n = trans ? 2 : 1;
    if (lane < 8 * count && address % 16) emu_fail("stmatrix of a row at %u, not aligned to 16", address);
    for (int j = 0; j < count * n; j++)
        to[j] = trans ? (uint32_t)w[8 * (j / 2) + 2 * (lane % 4) + j % 2].w[0] + (uint32_t)lane / 4 * 2
                      : (uint32_t)w[8 * j + lane / 4].w[0] + (uint32_t)lane % 4 * 4;
    for (int j = 0; j < count * n; j++) emu_store(to[j], (const uint8_t *)words + j * 4 / n, 4 / n);
}

typedef struct MmaLane {
    uint32_t *d, a[4], b[2];
} MmaLane;
typedef struct MmaTypes {
    EmuType a, b;
} MmaTypes;

static void mma(Warp *w, const EmuWord *lanes, const void *arg)
{
    const MmaTypes *t = arg;
    int e = 4 / emu_element_bytes(t->a);
    float a[16 * MAX_K], b[MAX_K * 8], c[16 * 8] = { 0 };
    const uint32_t *words[32];
    for (int l = 0; l < 32; l++) words[l] = ((const MmaLane *)&lanes[l])->a;
    fragment_a(a, words, t->a);
    for (int l = 0; l < 32; l++)
        for (int j = 0; j < 2; j++)
            emu_decode((const uint8_t *)&((const MmaLane *)&lanes[l])->b[j], e, t->b,
                b + (j * 4 * e + e * (l % 4)) * 8 + l / 4, 8);
    bool few = emu_sums == EMU_SUMS_SM_89 && is_fp8(t->a);
    for (int l = 0; few && l < 32; l++)
        for (int i = 0; i < 4; i++) memcpy(&c[fragment_c(l, i, 8)], &((const MmaLane *)&lanes[l])->d[i], 4);
    if (few) multiply_short(c, a, t->a, b, t->b, 8, 8 * e, 16); /* K of 32 in two steps of 16 (MMA-Sim) */
    else multiply(c, a, b, 8, 8 * e);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            uint32_t *d = &((const MmaLane *)&lanes[l])->d[i];
            if (few) memcpy(d, &c[fragment_c(l, i, 8)], 4);
            else add_to(d, c[fragment_c(l, i, 8)], is_int(t->a));
        }
}

void emu_mma(void *d, const uint32_t *a, const uint32_t *b, EmuType ta, EmuType tb)
{
    MmaLane mine = { d, { a[0], a[1], a[2], a[3] }, { b[0], b[1] } };
    MmaTypes t = { ta, tb };
    emu_meet("mma", &mine, sizeof mine, mma, &t);
}

void emu_mma_f64(double *d, const uint32_t *a, const uint32_t *b)
{
    double mine[2], x, y;
    memcpy(mine, a, 8);
    memcpy(mine + 1, b, 8);
    const EmuWord *w = emu_exchange("mma", mine, sizeof mine);
    int lane = emu.fiber->lane;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++) {
            memcpy(&x, &w[lane / 4 * 4 + k].w[0], 8);
            memcpy(&y, &w[(lane % 4 * 2 + i) * 4 + k].w[1], 8);
            d[i] = fma(x, y, d[i]);
        }
}

/* Element i of A: row g + 8 (i mod 2), column t + 4 (i / 2) of lane 4 g + t; of B: row t + 4 i, column g
 * (9.7.14.5, .f64). */
void emu_mma_f64_k16(double *d, const uint32_t *a, const uint32_t *b)
{
    double x[2][16], y;
    int lane = emu.fiber->lane;
    const EmuWord *w = emu_exchange("mma", a, 64);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 16; k++) memcpy(&x[i][k], &w[lane / 4 * 4 + k % 4].w[k / 4 * 2 + i], 8);
    w = emu_exchange("mma", b, 32);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) {
            memcpy(&y, &w[(lane % 4 * 2 + i % 2) * 4 + k % 4].w[k / 4], 8);
            d[i] = fma(x[i / 2][k], y, d[i]);
        }
}

/* --- wgmma: operands in shared memory ---------------------------------------------------------------- */

/* A descriptor (9.7.15.5.1.2.2). Strides between atoms of 8 rows of `span` bytes; `lead` is used without
 * swizzle, and by operands that run along M or N, from one atom to the next along it. */
typedef struct Matrix {
    uint32_t start, lead, stride, span;
    bool mn_major;
} Matrix;

static Matrix matrix(uint32_t lo, uint32_t hi, bool mn_major)
{
    static const uint32_t spans[] = { 16, 128, 64, 32 };
    uint64_t d = lo | (uint64_t)hi << 32;
    Matrix m = { (uint32_t)(d & 0x3fff) << 4, (uint32_t)(d >> 16 & 0x3fff) << 4,
        (uint32_t)(d >> 32 & 0x3fff) << 4, spans[d >> 62], mn_major };
    if (d >> 49 & 7) emu_fail("a wgmma descriptor with a base offset");
    if (d & ~0xc00e3fff3fff3fffull)
        emu_fail("reserved bits of a wgmma descriptor are set: %08x %08x", hi, lo);
    return m;
}

/* The address of the 16 bytes with piece p of row r: along K of row (column) r of A (B), or along M (N) at k
 * = r. */
static uint32_t piece(const Matrix *m, int r, int p)
{
    uint32_t a = m->start, u = (uint32_t)r, q = (uint32_t)p, per = m->span / 16;
    if (!m->mn_major) a += u % 8 * m->span + u / 8 * m->stride + (m->span == 16 ? q * m->lead : q * 16);
    else if (m->span == 16) a += q * m->stride + u % 8 * 16 + u / 8 * m->lead;
    else a += q % per * 16 + q / per * m->lead + u % 8 * m->span + u / 8 * m->stride;
    return m->span == 16 ? a : a ^ (a >> 3 & (m->span - 1) & ~15u);
}

/* Lists the pieces of rows first.. (rows of them, K elements): K-major row by row, else k by k. */
static int pieces_of(const Matrix *m, int first, int rows, int k, int bytes, uint32_t *out)
{
    int n = 0, outer = m->mn_major ? k : rows, inner = (m->mn_major ? rows : k) * bytes / 16;
    for (int r = 0; r < outer; r++)
        for (int p = 0; p < inner; p++)
            out[n++] = m->mn_major ? piece(m, r, first * bytes / 16 + p) : piece(m, first + r, p);
    return n;
}

/* The same walk over what is there: to out[row * along_row + k * along_k]. */
static void decode_pieces(const Cta *c, const uint32_t *pieces, bool mn_major, int rows, int k, EmuType t,
    float *out, int along_row, int along_k)
{
    int per = 16 / emu_element_bytes(t), outer = mn_major ? k : rows, inner = (mn_major ? rows : k) / per;
    for (int r = 0; r < outer; r++)
        for (int p = 0; p < inner; p++, pieces++) {
            float *to =
                mn_major ? out + p * per * along_row + r * along_k : out + r * along_row + p * per * along_k;
            emu_decode(c->memory + *pieces, per, t, to, mn_major ? along_row : along_k);
        }
}

/* The right operand of a product, as it was last decoded from such bytes: each warp of a warpgroup multiplies
 * by the same one. */
typedef struct Decoded {
    EmuType t;
    int n, k;
    bool trans;
    uint8_t bytes[MAX_K * MAX_N * 2];
    float value[MAX_K * MAX_N];
} Decoded;

static const float *decode_right(const Cta *c, const Product *p)
{
    enum { KEPT = 16 };
    static Decoded kept[KEPT];
    const EmuProduct *k = &p->kind;
    const uint32_t *pieces = p->pieces + p->n_a;
    Decoded *d = &kept[(pieces[0] >> 5 ^ pieces[0] >> 9) % KEPT];
    bool same = d->t == k->b && d->n == k->n && d->k == k->k && d->trans == k->trans_b;
    for (int i = 0; i < p->n_b; i++) {
        same = same && !memcmp(d->bytes + 16 * i, c->memory + pieces[i], 16);
        if (!same) memcpy(d->bytes + 16 * i, c->memory + pieces[i], 16);
    }
    if (same) return d->value;
    d->t = k->b;
    d->n = k->n;
    d->k = k->k;
    d->trans = k->trans_b;
    decode_pieces(c, pieces, k->trans_b, k->n, k->k, k->b, d->value, 1, k->n);
    return d->value;
}

/* --- wgmma: in flight -------------------------------------------------------------------------------- */

typedef struct GmmaLane {
    uint32_t *d;
    const uint32_t *a;
    uint32_t words[5];
} GmmaLane;

static void compute(Cta *c, Product *p)
{
    const EmuProduct *k = &p->kind;
    float a[16 * MAX_K];
    static float sum[16 * MAX_N];
    p->done = true;
    if (p->a[0]) fragment_a(a, p->a, k->a);
    else decode_pieces(c, p->pieces, k->trans_a, 16, k->k, k->a, a, MAX_K, 1);
    const float *b = decode_right(c, p);
    memset(sum, 0, sizeof *sum * 16 * (size_t)k->n);
    bool few = emu_sums == EMU_SUMS_SM_90A && is_fp8(k->a);
    for (int l = 0; few && p->accumulate && l < 32; l++)
        for (int i = 0; i < k->n / 2; i++)
            memcpy(&sum[fragment_c(l, i, k->n)], &p->chain->value[l * p->chain->regs + i], 4);
    if (few) multiply_short(sum, a, k->a, b, k->b, k->n, k->k, k->k);
    else multiply(sum, a, b, k->n, k->k);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < k->n / 2; i++) {
            uint32_t *v = &p->chain->value[l * p->chain->regs + i];
            if (few || !p->accumulate) *v = 0;
            add_to(v, sum[fragment_c(l, i, k->n)], k->integer);
        }
}

static Chain *chain_for(Warp *w, const EmuWord *lanes, int regs)
{
    uint32_t *d = ((const GmmaLane *)&lanes[0])->d;
    for (int k = 0; k < w->n_products; k++) {
        Chain *c = w->products[k]->chain;
        if (c->d[0] == d && c->regs == regs) return c;
        if (c->d[0] < d + regs && d < c->d[0] + c->regs)
            emu_fail("a wgmma's accumulators are in flight in another shape");
    }
    if (!w->fenced) emu_fail("no wgmma.fence since the last group, and the accumulators were accessed");
    Chain *c = calloc(1, sizeof *c);
    if (!c || !(c->value = malloc(sizeof *c->value * 32 * (size_t)regs))) abort();
    c->regs = regs;
    for (int l = 0; l < 32; l++) {
        c->d[l] = ((const GmmaLane *)&lanes[l])->d;
        memcpy(c->value + l * regs, c->d[l], sizeof *c->value * (size_t)regs);
        for (int i = 0; i < regs; i++) c->d[l][i] = poison;
    }
    return c;
}

/* .aligned: the four warps of a warpgroup execute the same ones in the same order. */
static void compare_in_group(Warp *w, const EmuProduct *k, const GmmaLane *x)
{
    Cta *c = w->cta;
    int g = w->index / 4;
    uint64_t what = (uint64_t)k->n << 40 ^ (uint64_t)k->k << 50 ^ (uint64_t)k->a << 56 ^ (uint64_t)k->b << 60;
    for (int i = 0; i < 5; i++) what = (what ^ x->words[i]) * 1099511628211ull;
    uint32_t at = w->issued++;
    if (at >= c->issued[g]) {
        c->issues[g][at % 64] = what;
        c->issued[g] = at + 1;
    } else if (c->issued[g] - at <= 64 && c->issues[g][at % 64] != what)
        emu_fail("the warps of a warpgroup execute different wgmma");
}

static void issue(Warp *w, const EmuWord *lanes, const void *arg)
{
    const EmuProduct *k = arg;
    const GmmaLane *x = (const GmmaLane *)&lanes[0];
    uint32_t pieces[(16 + MAX_N) * 2];
    for (int l = 1; l < 32; l++)
        if (memcmp(((const GmmaLane *)&lanes[l])->words, x->words, sizeof x->words))
            emu_fail("the lanes of a warp give wgmma different descriptors");
    compare_in_group(w, k, x);
    if (x->a && !w->fenced) emu_fail("no wgmma.fence since the last group, and A is in registers");
    Product *p = calloc(1, sizeof *p);
    if (!p) abort();
    *p = (Product){ .kind = *k, .moment = emu_moment(), .accumulate = x->words[4] != 0, .group = w->groups };
    int first = w->index % 4 * 16;
    if (x->a)
        for (int l = 0; l < 32; l++) {
            p->a[l] = ((const GmmaLane *)&lanes[l])->a;
            memcpy(p->a_was[l], p->a[l], sizeof p->a_was[l]);
        }
    else {
        Matrix a = matrix(x->words[0], x->words[1], k->trans_a);
        p->n_a = pieces_of(&a, first, 16, k->k, emu_element_bytes(k->a), pieces);
    }
    Matrix b = matrix(x->words[2], x->words[3], k->trans_b);
    p->n_b = pieces_of(&b, 0, k->n, k->k, emu_element_bytes(k->b), pieces + p->n_a);
    int n = p->n_a + p->n_b;
    for (int i = 0; i < n; i++) {
        emu_check_read(pieces[i], 16, BY_WGMMA);
        emu_mark_read(w, pieces[i], 16, EMU_READING, EMU_WHOLE);
    }
    p->pieces = malloc(sizeof *pieces * (size_t)n);
    if (!p->pieces) abort();
    memcpy(p->pieces, pieces, sizeof *pieces * (size_t)n);
    p->chain = chain_for(w, lanes, k->n / 2);
    p->chain->products++;
    if (w->n_products == w->room) {
        w->room = w->room ? 2 * w->room : 32;
        w->products = realloc(w->products, (size_t)w->room * sizeof *w->products);
        if (!w->products) abort();
    }
    w->products[w->n_products++] = p;
    if (p->moment != AT_ISSUE) return;
    for (int i = 0; i < w->n_products; i++)
        if (w->products[i]->chain == p->chain && !w->products[i]->done)
            compute(w->cta, w->products[i]); /* in order */
}

void emu_wgmma(const EmuProduct *k, void *d, const uint32_t *a, uint32_t alo, uint32_t ahi, uint32_t blo,
    uint32_t bhi, int accumulate)
{
    GmmaLane mine = { d, a, { a ? 0 : alo, a ? 0 : ahi, blo, bhi, accumulate != 0 } };
    emu_meet("wgmma", &mine, sizeof mine, issue, k);
}

static void fence(Warp *w, const EmuWord *lanes, const void *arg) { w->fenced = true; }
static void commit(Warp *w, const EmuWord *lanes, const void *arg)
{
    w->groups++;
    w->fenced = false;
}
void emu_wgmma_fence(void) { emu_meet("wgmma.fence", "", 1, fence, NULL); }
void emu_wgmma_commit(void) { emu_meet("wgmma.commit_group", "", 1, commit, NULL); }

static void product_free(Product *p)
{
    if (!--p->chain->products) {
        free(p->chain->value);
        free(p->chain);
    }
    free(p->pieces);
    free(p);
}

static void registers_back(const Chain *c)
{
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < c->regs; i++) {
            if (c->d[l][i] != poison)
                emu_fail("accumulator %d of lane %d was written before the wait for its wgmma", i, l);
            c->d[l][i] = c->value[l * c->regs + i];
        }
}

/* Complete: all but the newest groups. What is not in a group yet stays in flight. */
static void finish(Warp *w, const EmuWord *lanes, const void *arg)
{
    uint32_t left = *(const uint32_t *)arg;
    int n = 0;
    while (
        n < w->n_products && w->products[n]->group != w->groups && w->groups - w->products[n]->group > left)
        n++;
    for (int k = 0; k < n; k++) {
        Product *p = w->products[k];
        if (!p->done) compute(w->cta, p);
        for (int l = 0; p->a[0] && l < 32; l++)
            if (memcmp(p->a[l], p->a_was[l], sizeof p->a_was[l]))
                emu_fail("registers of A of lane %d changed before the wait for their wgmma", l);
        for (int i = 0; i < p->n_a + p->n_b; i++)
            emu_mark_read(w, p->pieces[i], 16, w->clock.at[w->index], EMU_WHOLE);
    }
    for (int k = n; k < w->n_products; k++)
        for (int i = 0; i < w->products[k]->n_a + w->products[k]->n_b; i++)
            emu_mark_read(w, w->products[k]->pieces[i], 16, EMU_READING, EMU_WHOLE);
    for (int k = 0; k < n; k++) {
        if (w->products[k]->chain->products == 1) registers_back(w->products[k]->chain);
        product_free(w->products[k]);
    }
    memmove(w->products, w->products + n, sizeof *w->products * (size_t)(w->n_products - n));
    w->n_products -= n;
}

void emu_wgmma_wait(uint32_t left) { emu_meet("wgmma.wait_group", "", 1, finish, &left); }

/* --- in flight --------------------------------------------------------------------------------------- */

bool emu_products_end(Cta *c)
{
    for (int k = 0; k < c->n_warps; k++)
        if (c->warps[k].n_products) return false;
    return true;
}

void emu_products_reset(Cta *c)
{
    for (int k = 0; c->warps && k < c->n_warps; k++) {
        Warp *w = &c->warps[k];
        for (int i = 0; i < w->n_products; i++) product_free(w->products[i]);
        w->n_products = 0;
    }
}

void emu_products_step(Warp *w)
{
    for (int k = 0; k < w->n_products; k++) {
        if (w->products[k]->done) continue;
        if (w->products[k]->moment == BETWEEN) compute(w->cta, w->products[k]);
        return;
    }
}
