"""Times kernels on a GPU beside PyTorch's peers.

    python3 bench.py DIR [ROW ...]

runs generated kernels: DIR holds NAME.cubin and NAME.json as gen.sh writes them from kernels.txt. ROW names a
case of rows/table.py; without one, all of them run. The environment's ROWS is a pattern for the titles of
rows.

    python3 bench.py --gemm=3000x5000x2000 --attention=B2H16M3000D128causal ...

runs shapes of your own through libtile, as a user launches it, without a tuning table. Nothing needs to be
generated for them; rows/shapes.py lists the forms.

Each result is checked against float64 (float32 for large problems) on fresh random inputs with a poisoned
output. Figures are medians of runs with a flushed L2, peers and kernels in a random order each round, in the
same process. The ratio is the median of the rounds' ratios, of nine rounds where three come within 6% of what
is asked. With OUT in the environment, the rows go to OUT/rows.json too. A contender whose launches failed
prints "failed" in place of a figure; a row that no kernel with right results ran is FAILED, and the exit
status is 1.
"""

import os, sys, time, traceback

# The modules lie in a folder of their own, since random.py here would hide Python's own.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows")
import torch
import harness, shapes


def own_shapes():
    b, begin = harness.Bench("."), time.time()
    shapes.run(b, sys.argv[1:])
    harness.finish(b, begin)


def run_cases(b, only):
    """The number of cases that raised an exception."""
    import table

    n = 0
    for name, fn in table.CASES:
        if only and not any(name == o or name.startswith(o + ".") for o in only):
            continue
        try:
            fn(b)
        except Exception as x:
            traceback.print_exc(limit=4)
            print("CASE FAILED", name, str(x)[:200], flush=True)
            n += 1
        torch.cuda.empty_cache()
    return n


def main():
    if shapes.wanted(sys.argv):
        return own_shapes()
    import triton_peers

    harness.beat("compiling Triton kernels", 120)
    triton_peers.precompile()
    b, only, begin = harness.Bench(sys.argv[1]), sys.argv[2:], time.time()
    cases_failed = run_cases(b, only)
    harness.finish(b, begin)
    if not only and triton_peers.triton:
        harness.beat("launch")
        print(
            f"Triton {triton_peers.triton.__version__} (configurations found on {triton_peers.TUNED_ON}): "
            f"host time of a launch with 12 arguments {triton_peers.launch_us():.1f} us"
        )
    failed = [r for r in b.rows if harness.failed(r.ratio)]
    short = [r for r in b.rows if r.must is not None and r.ratio < r.must and r not in failed]
    print(f"{len(b.rows)} rows, {len(short)} short, {len(failed)} failed")
    for r in short:
        print(f"  {r.title}: {r.ratio:.2f} of {r.must}")
    for r in failed:
        print(f"  {r.title}: {harness.verdict(r.ratio, r.must)}")
    if failed or cases_failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
