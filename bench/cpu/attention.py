"""Attention of PyTorch's CPU build at the shapes of tile_bench_cpu, for the rows that have no peer there.

    python3 bench/cpu/attention.py [threads]

Medians of at least 5 runs and 1 s, like the benchmark's own. Optional: nothing else in this repository needs Python or PyTorch.
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F


def median(f):
    f(), f()
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < 1:
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return statistics.median(times)


def main():
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    h, n, d = 8, 2048, 64
    with torch.no_grad():
        for name, dtype, causal in [("f16", torch.float16, False), ("f16", torch.float16, True),
                                    ("bf16", torch.bfloat16, False), ("f32", torch.float32, False)]:
            q, k, v = (torch.rand(1, h, n, d).mul(2).sub(1).to(dtype) for _ in range(3))
            seconds = median(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
            gflop = 4e-9 * h * n * n * d * (0.5 if causal else 1)
            print(f"attention {name} B1 H8 N2048 D64{' causal' if causal else ''}: {gflop / seconds:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
