"""PyTorch's side of tile_bench_cpu, which runs this and asks for one call at a time.

    python3 bench/cpu/torch_peer.py THREADS

Prints PyTorch's version; then for every line read the seconds of one call, by the faster of the ways that
there are, which the first call chooses. With one thread the seconds are processor time. The lines:

    attention TYPE N D [causal]   one batch of 8 heads: scaled_dot_product_attention, or the two products and
                                  the softmax by themselves
    gemm TYPE M N K               C = A B: matmul, bmm, linear; of i8 with sums in i32
    sort M N                      NumPy's sort of the rows of an M x N matrix of f32
    topk K M N                    the K largest elements of its rows
    conv TYPE nchw|nhwc N C H     3 x 3, padding 1, C filters, images of H x H

Optional: nothing else here needs Python or PyTorch.
"""

import sys
import time

import torch
import torch.nn.functional as F

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8}


def seconds(f):
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    f()
    return clock() - start


def values(name, *shape):
    if name == "i8":
        return torch.randint(-100, 100, shape, dtype=torch.int8)
    return torch.rand(*shape).mul(2).sub(1).to(TYPES[name])


def attention(name, n, d, causal=None):
    n, d = int(n), int(d)
    q, k, v = (values(name, 1, 8, n, d) for _ in range(3))
    mask = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else None

    def fused():
        return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), scale=0.125)

    def plain():
        s = torch.matmul(q, k.transpose(-1, -2)) * 0.125
        if causal:
            s = s.masked_fill(mask, float("-inf"))
        return torch.matmul(torch.softmax(s, -1), v)

    return fused, plain


def gemm(name, m, n, k):
    a, b = values(name, int(m), int(k)), values(name, int(k), int(n))
    if name == "i8":
        return (lambda: torch._int_mm(a, b),)
    w = b.t().contiguous()
    return (
        lambda: torch.matmul(a, b),
        lambda: torch.bmm(a[None], b[None]),
        lambda: F.linear(a, w),
    )


def conv(name, order, n, c, h):
    n, c, h = int(n), int(c), int(h)
    x, w = values(name, n, c, h, h), values(name, c, c, 3, 3)
    if order == "nhwc":
        x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    return (lambda: F.conv2d(x, w, padding=1),)


def sort(m, n):
    import numpy

    x = numpy.random.default_rng(1).random((int(m), int(n)), dtype=numpy.float32)
    return (lambda: numpy.sort(x, axis=1),)


def topk(k, m, n):
    x = values("f32", int(m), int(n))
    return lambda: torch.topk(x, int(k)), lambda: torch.topk(x, int(k), sorted=False)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    print(f"PyTorch {torch.__version__}", flush=True)
    kinds = {"attention": attention, "gemm": gemm, "conv": conv, "sort": sort, "topk": topk}
    best = {}
    with torch.no_grad():
        for line in sys.stdin:
            row = line.strip()
            if row not in best:
                kind, *rest = row.split()
                tried = [(min(seconds(f) for _ in range(2)), n, f) for n, f in enumerate(kinds[kind](*rest))]
                best = {row: min(tried)[2]}  # The last row only, as the arrays of all need much memory.
            print(seconds(best[row]), flush=True)


if __name__ == "__main__":
    main()
