/* amx_model.c: see amx_model.h. */
#include "amx_model.h"
#include "ir/type.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TILES = 8, MAX_ROWS = 16, MAX_ROW_BYTES = 64 };

/* A handler of signals may use the registers: their memory is there from a thread's start. */
#define TLS_MODEL __attribute__((tls_model("initial-exec")))

typedef struct Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} Config;
_Static_assert(sizeof(Config) == 64, "the size that LDTILECFG reads");

static _Thread_local Config config TLS_MODEL;
static _Thread_local unsigned char data[N_TILES][MAX_ROWS][MAX_ROW_BYTES] TLS_MODEL;
_Thread_local int64_t amx_products TLS_MODEL;

static void require(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "AMX: %s\n", what);
    abort();
}

static void require_tile(int32_t t)
{
    require(config.palette == 1, "an instruction on tiles without a configuration");
    require(t >= 0 && t < N_TILES && config.rows[t] && config.row_bytes[t], "a tile that is not configured");
}

static void configure(const Config *c)
{
    config = *c;
    memset(data, 0, sizeof data);
}

void tile_amx_ldtilecfg(const void *from)
{
    Config c;
    static const unsigned char zeros[sizeof c.reserved];
    memcpy(&c, from, sizeof c);
    require((uintptr_t)from % 64 == 0, "a configuration that crosses a line of the cache");
    require(c.palette <= 1 && c.start_row == 0, "LDTILECFG of an unknown palette");
    require(!c.palette || !memcmp(c.reserved, zeros, sizeof zeros), "LDTILECFG with reserved bytes");
    for (int t = 0; t < 16 && c.palette; t++) {
        bool none = !c.rows[t] && !c.row_bytes[t];
        require(none || (t < N_TILES && c.rows[t] && c.rows[t] <= MAX_ROWS && c.row_bytes[t] &&
                            c.row_bytes[t] <= MAX_ROW_BYTES),
            "LDTILECFG of a tile that is too large");
    }
    if (!c.palette) memset(&c, 0, sizeof c);
    configure(&c);
}

bool amx_model_configured(void) { return config.palette != 0; }

void tile_amx_sttilecfg(void *to) { memcpy(to, &config, sizeof config); }

void tile_amx_tilerelease(void) { configure(&(Config){ 0 }); }

void tile_amx_tilezero(int32_t t)
{
    require_tile(t);
    memset(data[t], 0, sizeof data[t]);
}

void tile_amx_tileloadd64(int32_t t, const void *base, int64_t stride)
{
    require_tile(t);
    memset(data[t], 0, sizeof data[t]);
    for (int r = 0; r < config.rows[t]; r++)
        memcpy(data[t][r], (const char *)base + r * stride, config.row_bytes[t]);
}

void tile_amx_tileloaddt164(int32_t t, const void *base, int64_t stride)
{ tile_amx_tileloadd64(t, base, stride); }

void tile_amx_tilestored64(int32_t t, void *base, int64_t stride)
{
    require_tile(t);
    for (int r = 0; r < config.rows[t]; r++)
        memcpy((char *)base + r * stride, data[t][r], config.row_bytes[t]);
}

static void require_product(int32_t to, int32_t a, int32_t b)
{
    require_tile(to);
    require_tile(a);
    require_tile(b);
    require(to != a && to != b && a != b, "a product whose tiles are not three");
    require(config.row_bytes[to] == config.row_bytes[b] && config.rows[a] == config.rows[to] &&
                config.row_bytes[a] == 4 * config.rows[b] && config.row_bytes[to] % 4 == 0,
        "a product of tiles that do not fit");
    amx_products++;
}

static float flush(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

/* A bf16 is the upper half of an f32. The exponent of an f16 moves up by 112; that of its infinities and NaN
 * is the largest one. */
static float widen(DType d, const unsigned char *at)
{
    uint16_t from;
    memcpy(&from, at, sizeof from);
    uint32_t bits = d == DT_BF16 ? (uint32_t)from << 16 : (from & 0x7fffu) << 13, sign = from & 0x8000u;
    float x;
    memcpy(&x, &bits, sizeof x);
    if (d == DT_BF16) return flush(x);
    x *= 0x1p112f;
    memcpy(&bits, &x, sizeof bits);
    bits |= ((from & 0x7c00) == 0x7c00 ? 0x7f800000 : 0) | sign << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The numbers in tile `t`, denormal ones of bf16 as zero. */
static void numbers(DType d, int32_t t, float out[MAX_ROWS][MAX_ROW_BYTES / 2])
{
    for (int r = 0; r < config.rows[t]; r++)
        for (int k = 0; k < config.row_bytes[t] / 2; k++) out[r][k] = widen(d, data[t][r] + 2 * k);
}

/* The even and the odd products along K are summed on their own, and both sums are added to the result. */
static void product_16_bits(DType d, int32_t to, int32_t a, int32_t b)
{
    float of_a[MAX_ROWS][MAX_ROW_BYTES / 2], of_b[MAX_ROWS][MAX_ROW_BYTES / 2];
    require_product(to, a, b);
    numbers(d, a, of_a);
    numbers(d, b, of_b);
    int columns = config.row_bytes[to] / 4;
    for (int m = 0; m < config.rows[to]; m++) {
        float sums[MAX_ROW_BYTES / 2] = { 0 }, c[MAX_ROW_BYTES / 4];
        for (int k = 0; k < config.row_bytes[a] / 4; k++) {
            float pair[MAX_ROW_BYTES / 2];
            for (int n = 0; n < 2 * columns; n++) pair[n] = of_a[m][2 * k + n % 2];
            for (int n = 0; n < 2 * columns; n++) sums[n] = flush(fmaf(pair[n], of_b[k][n], sums[n]));
        }
        memcpy(c, data[to][m], (size_t)columns * 4);
        for (int n = 0; n < columns; n++) c[n] = flush(flush(c[n]) + flush(sums[2 * n] + sums[2 * n + 1]));
        memcpy(data[to][m], c, (size_t)columns * 4);
    }
}

void tile_amx_tdpbf16ps(int32_t to, int32_t a, int32_t b) { product_16_bits(DT_BF16, to, a, b); }
void tile_amx_tdpfp16ps(int32_t to, int32_t a, int32_t b) { product_16_bits(DT_F16, to, a, b); }

static void bytes(bool sign, int32_t t, int out[MAX_ROWS][MAX_ROW_BYTES])
{
    for (int r = 0; r < config.rows[t]; r++)
        for (int k = 0; k < config.row_bytes[t]; k++)
            out[r][k] = sign ? (int8_t)data[t][r][k] : data[t][r][k];
}

static void product_8_bits(bool sign_a, bool sign_b, int32_t to, int32_t a, int32_t b)
{
    int of_a[MAX_ROWS][MAX_ROW_BYTES], of_b[MAX_ROWS][MAX_ROW_BYTES];
    require_product(to, a, b);
    bytes(sign_a, a, of_a);
    bytes(sign_b, b, of_b);
    int columns = config.row_bytes[to] / 4;
    for (int m = 0; m < config.rows[to]; m++) {
        uint32_t c[MAX_ROW_BYTES / 4];
        memcpy(c, data[to][m], (size_t)columns * 4);
        for (int k = 0; k < config.row_bytes[a]; k++)
            for (int n = 0; n < columns; n++) c[n] += (uint32_t)(of_a[m][k] * of_b[k / 4][4 * n + k % 4]);
        memcpy(data[to][m], c, (size_t)columns * 4);
    }
}

void tile_amx_tdpbssd(int32_t to, int32_t a, int32_t b) { product_8_bits(true, true, to, a, b); }
void tile_amx_tdpbsud(int32_t to, int32_t a, int32_t b) { product_8_bits(true, false, to, a, b); }
void tile_amx_tdpbusd(int32_t to, int32_t a, int32_t b) { product_8_bits(false, true, to, a, b); }
void tile_amx_tdpbuud(int32_t to, int32_t a, int32_t b) { product_8_bits(false, false, to, a, b); }
