"""Shapes drawn by chance, through libtile as a user launches it, without a tuning table, beside PyTorch's
peers.

    python3 random.py --seed=S --count=N [--family=gemm,attention,conv,rows] [--lib=libtile.so] ...

draws N shapes of each family: extents log-uniform (half of them multiples of 8 or 64, the others any number),
odd strides, transposed operands, types, batches, heads and groups of heads. It prints each row as bench.py
does, then for each family quantiles of the ratio to the better peer, and the ten worst shapes of all. The
other options are those of rows/shapes.py. The same seed draws the same shapes. `--list` prints the shapes and
runs none.
"""

import os, sys

# The modules lie in a folder of their own, since this file would hide Python's own random.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows")
import math, random, statistics, time


def extent(r, low, high):
    """Log-uniform; a quarter are multiples of 64, a quarter multiples of 8, half any number."""
    n = int(math.exp(r.uniform(math.log(low), math.log(high))))
    step = r.choice((1, 1, 8, 64))
    return max(low, n // step * step)


def draw_gemm(r):
    while True:
        m, n, k = (extent(r, 64, 16384) for _ in range(3))
        if 1e8 < m * n * k < 1e12:
            break
    text = f"{m}x{n}x{k}:{r.choice(('f16', 'bf16'))}:{r.choice(('nn', 'nt', 'tn', 'tt'))}"
    return "gemm", text + r.choice(("", "", f":pad={r.choice((1, 2, 3, 4, 8))}"))


def draw_attention(r):
    while True:
        b, h, group, m = extent(r, 1, 16), extent(r, 1, 64), r.choice((1, 1, 2, 4, 8)), extent(r, 64, 16384)
        n = r.choice((m, m, extent(r, 64, 16384)))
        if h % group == 0 and 1e7 < b * h * m * n < 3e10:
            break
    heads = f"H{h}" if group == 1 else f"H{h}HK{h // group}"
    mask = r.choice(("", "causal")) if m == n else r.choice(("", "lower"))
    held = r.choice(("", ":bshd"))
    d, t = r.choice((64, 64, 96, 128, 128, 256)), r.choice(("f16", "bf16"))
    return "attention", f"B{b}{heads}M{m}N{n}D{d}{mask}:{t}{held}"


def draw_conv(r):
    while True:
        b, c, size, f = extent(r, 1, 64), extent(r, 16, 1024), extent(r, 7, 112), extent(r, 16, 1024)
        taps, stride = r.choice((1, 3, 3, 5)), r.choice((1, 1, 2))
        if 1e8 < b * c * f * (size * taps / stride) ** 2 < 3e11 and b * size * size * max(c, f) < 1 << 30:
            break
    return "conv", f"B{b}C{c}H{size}F{f}R{taps}S{stride}:{r.choice(('f16', 'bf16'))}"


def draw_rows(r):
    n = extent(r, 64, 131072)
    m = max(1, (1 << 27) // n)  # far more than the L2 cache holds
    return r.choice(("softmax", "rms", "layer", "silu")), f"{m}x{n}:{r.choice(('f16', 'bf16', 'f32'))}"


FAMILIES = {"gemm": draw_gemm, "attention": draw_attention, "conv": draw_conv, "rows": draw_rows}


def quantile(values, part):
    v = sorted(values)
    return v[min(len(v) - 1, int(part * len(v)))]


def summary(found):
    """found: [(family, row)]"""
    print(
        f"\n{'family':<10} {'shapes':>6} {'minimum':>8} {'10%':>6} {'median':>7} {'90%':>6} "
        f"{'share >= 1':>11}"
    )
    for family in dict.fromkeys(f for f, _ in found):
        v = [row.ratio for f, row in found if f == family]
        share = sum(x >= 1 for x in v) / len(v)
        print(
            f"{family:<10} {len(v):>6} {min(v):>8.2f} {quantile(v, 0.1):>6.2f} {statistics.median(v):>7.2f} "
            f"{quantile(v, 0.9):>6.2f} {share:>11.0%}"
        )
    print("\nthe worst:")
    for family, row in sorted(found, key=lambda x: x[1].ratio)[:10]:
        print(f"  {f'{row.ratio:.2f}' if row.ratio > 0 else 'failed'}  {row.title}")


def main():
    option = lambda name, otherwise: next(
        (a.split("=", 1)[1] for a in sys.argv if a.startswith(f"--{name}=")), otherwise
    )
    seed, count = int(option("seed", 1)), int(option("count", 10))
    families = option("family", ",".join(FAMILIES)).split(",")
    unknown = [f for f in families if f not in FAMILIES]
    if unknown:
        sys.exit(f"random.py: no family {unknown[0]}; there are {', '.join(FAMILIES)}")
    drawn = []
    for family in families:
        r = random.Random(f"{seed} {family}")
        drawn += [(family, FAMILIES[family](r)) for _ in range(count)]
    if "--list" in sys.argv:
        for _, (what, text) in drawn:
            print(f"--{what}={text}")
        return
    import harness, shapes

    b, begin, found = harness.Bench("."), time.time(), []
    rows = shapes.rows_of(b, sys.argv)
    for family, (what, text) in drawn:
        before = len(b.rows)
        shapes.try_row(rows, what, text)
        found += [(family, row) for row in b.rows[before:]]
    harness.finish(b, begin)
    print(f"seed {seed}, {len(found)} of {len(drawn)} shapes ran")
    if found:
        summary(found)


if __name__ == "__main__":
    main()
