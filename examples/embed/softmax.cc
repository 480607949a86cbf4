// softmax.cc: softmax.c in C++, with tile.hpp.
//
//     ./softmax_cc ../kernels/softmax.tile [cpu|cuda|hip]
#include <cstdio>
#include <vector>

#include <tile/tile.hpp>

int main(int argc, char **argv)
try {
    if (argc < 2) return std::fprintf(stderr, "usage: softmax_cc FILE.tile [TARGET]\n"), 2;
    tile::context ctx(argc > 2 ? argv[2] : nullptr);
    tile::kernel softmax = ctx.load(argv[1]).kernel("softmax", { { "T", TILE_F32 } });

    constexpr int M = 1000, N = 777;
    std::vector<float> host(M * N);
    for (int i = 0; i < M * N; i++) host[i] = static_cast<float>(i % 17);
    tile::tensor x(ctx, TILE_F32, { M, N }), y(ctx, TILE_F32, { M, N });
    x.from_host(host.data());
    softmax(x, y);
    y.to_host(host.data());
    ctx.synchronize();

    double sum = 0;
    for (float value : host) sum += value;
    std::printf("%d rows sum to %.4f\n", M, sum);
    return sum < M - 0.01 || sum > M + 0.01;
} catch (const tile::error &error) {
    std::fprintf(stderr, "%s: %s\n", tile_status_name(error.status()), error.what());
    return 1;
}
