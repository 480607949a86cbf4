/* test_cpp.cc: tile.hpp on the CPU: what it says, and that nothing leaks or outlives its context (under the
 * sanitizers). */
#include "tile/tile.hpp"

#include <cstdio>
#include <cstring>

static int failures;
#define CHECK(x) \
    do { \
        if (!(x)) std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), failures++; \
    } while (0)

template <class F> static tile_status status_of(const F &f, const char *text)
{
    try {
        f();
    } catch (const tile::error &e) {
        if (!std::strstr(e.what(), text))
            std::fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, e.what()), failures++;
        return e.status();
    }
    return TILE_OK;
}

static const char source[] =
    "kernel scale(in f32 X[M, N], in f32 B[N]?, out f32 Y[M, N], f32 a, i32 n, const int T = 16)\n"
    "    grid (M, cdiv(N, T))\n{\n    let (i, j) = program_id();\n"
    "    var x = load(X[i +: 1, j*T +: T]) * a + f32(n);\n"
    "    const if has(B) { x = x + load(B[j*T +: T])[None, :]; }\n    store(Y[i +: 1, j*T +: T], x);\n}\n"
    "kernel other(out f32 Y[N]) grid (N) { store(Y[program_id() +: 1], full([1], 1.0, f32)); }\n";

static tile::kernel make()
{
    tile::context ctx("cpu", TILE_CONTEXT_NO_CACHE);
    tile::module m = ctx.load_text("scale.tile", source);
    CHECK(m.names() == (std::vector<std::string>{ "scale", "other" }));
    return m.kernel("scale", { { "T", 32 } }); /* keeps the module and the context */
}

int main()
{
    float x[2 * 40], y[2 * 40], b[40];
    for (int i = 0; i < 80; i++) x[i] = static_cast<float>(i), b[i % 40] = 0.5f;
    tile::kernel scale = make();
    scale(tile::view(x, { 2, 40 }), tile::none, tile::view(y, { 2, 40 }), 2.0, 1);
    for (int i = 0; i < 80; i++) CHECK(y[i] == 2.0f * x[i] + 1);
    tile::kernel moved = std::move(scale);
    moved(tile::view(x, { 2, 40 }, { 40, 1 }, TILE_F32), tile::view(b, { 40 }), tile::view(y, { 2, 40 }),
        1.0f, -3);
    for (int i = 0; i < 80; i++) CHECK(y[i] == x[i] - 3 + 0.5f);
    moved(tile::view(x, { 40, 2 }, { 1, 40 }), tile::none, tile::view(y, { 40, 2 }, { 1, 40 }), 1, 0);
    for (int i = 0; i < 80; i++) CHECK(y[i] == x[i]);

    tile::context ctx("cpu", TILE_CONTEXT_NO_CACHE);
    tile::tensor t(ctx, TILE_F32, { 2, 40 }), u(ctx, TILE_F32, { 2, 40 });
    tile::kernel k = ctx.load_text("scale.tile", source).kernel("scale");
    t.from_host(x);
    CHECK(t.bytes() == sizeof x && t.extent(1) == 40);
    CHECK(k.prepare({ { "M", 1, 4, 1 }, { "N", 40, 40, 1 } }) >= 1);
    k.compile(t, tile::none, u, 2.0, 1);
    ctx.seal();
    CHECK(k.try_launch(nullptr, t, tile::none, u, 2.0, 1) == TILE_OK);
    u.to_host(y);
    for (int i = 0; i < 80; i++) CHECK(y[i] == 2.0f * x[i] + 1);
    CHECK(status_of([&] { k(tile::view(x + 1, { 1, 7 }), tile::none, tile::view(y, { 1, 7 }), 2.0, 1); },
              "sealed") == TILE_ERROR_SEALED);
    CHECK(ctx.missing().find("scale") != std::string::npos);
    ctx.seal(false);
    CHECK(ctx.missing().empty());
    t = std::move(u);
    CHECK(k.try_launch(nullptr, t, tile::none) == TILE_ERROR_INVALID_ARGUMENT);

    CHECK(status_of([&] { k(t, tile::none, t, 2.0, 1); }, "overlaps") == TILE_ERROR_OVERLAP);
    CHECK(status_of([] { tile::context("vax"); }, "unknown target `vax`") == TILE_ERROR_INVALID_ARGUMENT);
    CHECK(status_of([&] { ctx.load("/no/such/file.tile"); }, "/no/such/file.tile") == TILE_ERROR_IO);
    CHECK(status_of([&] { ctx.load_text("bad.tile", "kernel"); }, "bad.tile:1") == TILE_ERROR_COMPILE);
    CHECK(status_of([&] { ctx.load_text("s.tile", source).kernel("none"); }, "no kernel named `none`") ==
          TILE_ERROR_NOT_FOUND);
    CHECK(status_of([&] { ctx.load_text("s.tile", source).kernel("scale", { { "T", TILE_F32 } }); }, "T") ==
          TILE_ERROR_DTYPE);
    CHECK(status_of([&] { tile::view(x, { 2, 40 }, { 1 }); }, "as many strides") == TILE_ERROR_SHAPE);
    CHECK(status_of([&] { tile::tensor(ctx, TILE_NONE, { 2 }); }, "") != TILE_OK);
    std::printf("%d failures\n", failures);
    return failures != 0;
}
