#!/usr/bin/env python3
"""Runs the kernels of bench/ported: checks them, times them, and prints the table.

    bench/ported/run.py                            checks, then times on the CPU against NumPy and PyTorch
    bench/ported/run.py --device=cuda --type=f16   on a GPU, against PyTorch: checks and times there (gpu.py)
    bench/ported/run.py --check                    only checks, at the small sizes of the kernels' heads
    bench/ported/run.py --check --build=BUILD --on=interp,tcc_sm_90a     the same in interpreter and emulators

Peers are the reference in NumPy (--device=cpu) and, where PyTorch is installed, the same formulas in eager
mode and under torch.compile. A ratio is the time of the best peer over that of the kernel.
Exit status: 0, or 1 if a result is wrong.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

try:
    import numpy as np
except ImportError:
    sys.exit("SKIP: bench/ported/run.py needs NumPy (Debian: python3-numpy)")

sys.path.insert(0, str(Path(__file__).resolve().parent))
from suite import Case, cases, deviation, sizes_of, tile, wide  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
if torch:
    from peers import TorchNames, tensors_of


def flat(outs) -> list:
    return [] if outs is None else list(outs) if isinstance(outs, tuple) else [outs]


def in_order(case: Case, args: dict, outs: list) -> list:
    """`inout` and `out` tensors in the order of the source."""
    left = iter(outs)
    return [
        args[p.name] if p.kind == "inout" else next(left)
        for p in case.kernel.parameters
        if p.kind in ("inout", "out")
    ]


def compare(case: Case, args: dict, sizes: dict, consts: dict, options: dict) -> float:
    """Launches and compares with the reference; the largest deviation, up to 1 is right."""
    with np.errstate(all="ignore"):
        want = case.refer(np, {n: wide(a) for n, a in args.items()}, sizes, consts)
    args = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in args.items()}
    got = in_order(case, args, flat(case.launch(args, sizes, {**consts, **options})))
    assert len(got) == len(want), f"the reference returns {len(want)} of {len(got)} outputs"
    return max(deviation(g, w, case.allowed) for g, w in zip(got, want))


def check(case: Case, seeds: int) -> bool:
    """Every alternative of sizes and consts, `seeds` draws of each. False and a line if one is wrong."""
    if case.reference is None:
        print(f"FAIL {case.name}: references/ has no function of this name")
        return False
    for number, consts_text in enumerate(case.consts):
        for sizes_text in case.sizes:
            for seed in range(seeds if ".." in sizes_text else 1):
                consts = case.consts_of(consts_text)
                sizes = sizes_of(sizes_text, np.random.default_rng(100 * number + seed))
                args = case.arguments(sizes, consts, seed)
                if args is None:  # a type that only the emulators check
                    continue
                try:
                    off = compare(case, args, sizes, consts, {})
                except Exception as error:
                    print(f"FAIL {case.name} at {sizes} {consts_text}: {type(error).__name__}: {error}")
                    return False
                if not off <= 1:
                    print(
                        f"FAIL {case.name} at {sizes} {consts_text}: off by {off:.3g} times what is allowed"
                    )
                    return False
    return True


def elsewhere(build: Path, device: str, found: list) -> bool:
    """The same files in the interpreter or an emulator, against the interpreter without passes."""
    program = "tests/emu/tile_random_emu" if "_" in device else "tests/run/tile_random_test"
    files = [str(case.path) for case in found]
    done = subprocess.run([str(build / program), f"--device={device}", "--draws=1", *files])
    return done.returncode in (0, 77)


def seconds(run, budget: float) -> float:
    """Median time of a run. The first one, in which a peer may compile, does not count."""
    run()
    times: list[float] = []
    until = time.perf_counter() + 2 * budget
    while not times or (time.perf_counter() < until and len(times) < 200):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def time_case(case: Case, budget: float) -> dict:
    """Times by contender in seconds: "tile", "numpy", "eager", "inductor" as far as they run; what failed."""
    consts = case.consts_of(case.bench_consts or case.consts[0])
    sizes = sizes_of(case.bench, np.random.default_rng(0))
    row: dict = {"kernel": case.name, "failed": {}}
    args = case.arguments(sizes, consts, 1)
    outs = case.launch(args, sizes, consts)
    row["tile"] = seconds(lambda: case.launch(args, sizes, consts, out=outs), budget)
    contenders = {"numpy": lambda: case.refer(np, args, sizes, consts)}
    if torch:
        tensors, names = tensors_of(args, "cpu"), TorchNames("cpu")
        contenders["eager"] = lambda: case.refer(names, tensors, sizes, consts)
        contenders["inductor"] = torch.compile(contenders["eager"])
    for name, run in contenders.items():
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row[name] = seconds(run, budget)
        except Exception as error:
            row["failed"][name] = f"{type(error).__name__}: {error}".splitlines()[0][:100]
    peers = [row[n] for n in contenders if n in row]
    row["ratio"] = min(peers) / row["tile"] if peers else None
    return row


def table(rows: list) -> None:
    """The rows and the quantiles of the ratios."""
    columns = [n for n in ("tile", "numpy", "eager", "inductor") if any(n in r for r in rows)]
    print("| kernel | " + " | ".join(f"{n}, ms" for n in columns) + " | ratio |")
    print("|---|" + "---|" * (len(columns) + 1))
    for r in rows:
        cells = [f"{r[n] * 1e3:.3f}" if n in r else "-" for n in columns]
        ratio = format(r["ratio"], ".2f") if r.get("ratio") else "-"
        print(f"| {r['kernel']} | {' | '.join(cells)} | {ratio} |")
    ratios = sorted(r["ratio"] for r in rows if r.get("ratio"))
    if ratios:
        share = sum(x >= 1 for x in ratios) / len(ratios)
        print(
            f"{len(ratios)} kernels: share at 1.0 or more {share:.0%}, 10th percentile "
            f"{np.quantile(ratios, 0.1):.2f}, minimum {ratios[0]:.2f}, median {np.median(ratios):.2f}"
        )
    for r in rows:
        for name, why in r["failed"].items():
            print(f"{r['kernel']}: {name} failed: {why}", file=sys.stderr)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="check only, do not time")
    parser.add_argument("--only", default="", metavar="REGEX", help="names of kernels")
    parser.add_argument("--seeds", type=int, default=2, help="draws of each range of sizes")
    parser.add_argument(
        "--build", type=Path, help="folder of the build whose interpreter and emulators check"
    )
    parser.add_argument("--on", default="interp,tcc_sm_90a", help="devices of --build, by commas")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where it runs")
    gpu = parser.add_argument_group("for --device=cuda")
    gpu.add_argument("--type", default="", help="f32, f16 or bf16 for the const types of the timed kernels")
    gpu.add_argument("--peers", default="eager,inductor", help="what is timed beside the kernels, by commas")
    gpu.add_argument("--jobs", type=int, default=12, help="processes that compile at a time")
    gpu.add_argument("--compile", type=float, default=40, metavar="S", help="the most for a peer to compile")
    gpu.add_argument("--tune", type=float, default=0, metavar="S", help="also measure the space of `auto`")
    gpu.add_argument("--worker", metavar="KERNEL", help=argparse.SUPPRESS)
    gpu.add_argument("--lock", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each contender")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    return parser.parse_args()


def on_gpu(o: argparse.Namespace) -> int:
    if not torch or not torch.cuda.is_available():
        sys.exit("bench/ported/run.py --device=cuda needs a GPU and PyTorch for it")
    import gpu

    if o.worker:
        gpu.worker(cases(f"^{o.worker}$")[0], o)
        return 0
    return gpu.run(cases(o.only), o, sys.argv[1:])


def main() -> int:
    o = options()
    warnings.simplefilter("ignore", tile.Warning)
    if o.device == "cuda":
        return on_gpu(o)
    found = cases(o.only)
    good = [case for case in found if check(case, o.seeds)]
    elsewhere_good = all([elsewhere(o.build, d, found) for d in o.on.split(",")]) if o.build else True
    print(f"{len(good)} of {len(found)} kernels agree with their references on the CPU")
    if not o.check:
        rows = []
        for case in good:
            rows.append(time_case(case, o.seconds))
            ratio = f", ratio {rows[-1]['ratio']:.2f}" if rows[-1]["ratio"] else ""
            print(f"{case.name}: {rows[-1]['tile'] * 1e3:.3f} ms{ratio}", file=sys.stderr, flush=True)
        table(rows)
        if o.json:
            o.json.write_text(json.dumps(rows, indent=1))
    return 0 if len(good) == len(found) and elsewhere_good else 1


if __name__ == "__main__":
    sys.exit(main())
