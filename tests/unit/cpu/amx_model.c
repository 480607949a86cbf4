/* amx_model.c: see amx_model.h. */
#include "amx_model.h"
#include "ir/scalar.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TILES = 8, MAX_ROWS = 16, MAX_ROW_BYTES = 64 };

typedef struct Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} Config;
_Static_assert(sizeof(Config) == 64, "the size that LDTILECFG reads");

static _Thread_local Config config;
static _Thread_local unsigned char data[N_TILES][MAX_ROWS][MAX_ROW_BYTES];
_Thread_local int64_t amx_products;

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

void tile_amx_ldtilecfg(const void *from)
{
    Config c;
    memcpy(&c, from, sizeof c);
    require((uintptr_t)from % 64 == 0, "a configuration that crosses a line of the cache");
    require(c.palette <= 1 && c.start_row == 0, "LDTILECFG of an unknown palette");
    for (int t = 0; t < 16; t++) {
        bool none = !c.rows[t] && !c.row_bytes[t];
        require(none || (t < N_TILES && c.rows[t] && c.rows[t] <= MAX_ROWS && c.row_bytes[t] &&
                            c.row_bytes[t] <= MAX_ROW_BYTES && c.row_bytes[t] % 4 == 0),
            "LDTILECFG of a tile that is too large");
    }
    if (!c.palette) memset(&c, 0, sizeof c);
    config = c;
    memset(data, 0, sizeof data);
}

void tile_amx_sttilecfg(void *to) { memcpy(to, &config, sizeof config); }

void tile_amx_tilerelease(void)
{
    memset(&config, 0, sizeof config);
    memset(data, 0, sizeof data);
}

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
                config.row_bytes[a] == 4 * config.rows[b],
        "a product of tiles that do not fit");
    amx_products++;
}

/* Denormal results count as zero; those of bf16 operands are handled by the caller. */
static float flush(float x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x; }

static float operand(DType d, int32_t tile, int row, int k)
{
    float x = (float)scalar_load(d, data[tile][row] + 2 * k).f;
    return d == DT_BF16 ? flush(x) : x;
}

/* The even and the odd products along K are summed on their own, and both sums are added to the result. */
static void product_16_bits(DType d, int32_t to, int32_t a, int32_t b)
{
    require_product(to, a, b);
    for (int m = 0; m < config.rows[to]; m++)
        for (int n = 0; n < config.row_bytes[to] / 4; n++) {
            float sum[2] = { 0, 0 }, c;
            for (int k = 0; k < config.row_bytes[a] / 4; k++)
                for (int odd = 0; odd < 2; odd++)
                    sum[odd] =
                        flush(fmaf(operand(d, a, m, 2 * k + odd), operand(d, b, k, 2 * n + odd), sum[odd]));
            memcpy(&c, data[to][m] + 4 * n, 4);
            c = flush(flush(c) + flush(sum[0] + sum[1]));
            memcpy(data[to][m] + 4 * n, &c, 4);
        }
}

void tile_amx_tdpbf16ps(int32_t to, int32_t a, int32_t b) { product_16_bits(DT_BF16, to, a, b); }
void tile_amx_tdpfp16ps(int32_t to, int32_t a, int32_t b) { product_16_bits(DT_F16, to, a, b); }

static int extend(unsigned char x, bool sign) { return sign ? (int8_t)x : x; }

static void product_8_bits(bool sign_a, bool sign_b, int32_t to, int32_t a, int32_t b)
{
    require_product(to, a, b);
    for (int m = 0; m < config.rows[to]; m++)
        for (int n = 0; n < config.row_bytes[to] / 4; n++) {
            uint32_t c;
            memcpy(&c, data[to][m] + 4 * n, 4);
            for (int k = 0; k < config.row_bytes[a]; k++)
                c +=
                    (uint32_t)(extend(data[a][m][k], sign_a) * extend(data[b][k / 4][4 * n + k % 4], sign_b));
            memcpy(data[to][m] + 4 * n, &c, 4);
        }
}

void tile_amx_tdpbssd(int32_t to, int32_t a, int32_t b) { product_8_bits(true, true, to, a, b); }
void tile_amx_tdpbsud(int32_t to, int32_t a, int32_t b) { product_8_bits(true, false, to, a, b); }
void tile_amx_tdpbusd(int32_t to, int32_t a, int32_t b) { product_8_bits(false, true, to, a, b); }
void tile_amx_tdpbuud(int32_t to, int32_t a, int32_t b) { product_8_bits(false, false, to, a, b); }
