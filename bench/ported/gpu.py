"""The kernels of bench/ported on a GPU: checked there, and timed beside PyTorch.

Each kernel has a process of its own, so that one that fails ends no other. Many processes compile and check
at a time; then they measure one after another. All contenders of a kernel are timed alike: launches in a CUDA
graph over sets of tensors that together exceed the L2 cache, in rounds, and the median of the rounds counts.
What cannot be captured in a graph (a peer that reads a value of the GPU) is timed by events around it, with
what the host does between its launches.
"""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from peers import TorchNames, tensors_of
from suite import TOLERANCE, Case, deviation, sizes_of, wide

RUN = Path(__file__).parent / "run.py"
GRAPH_MS = 3.0  # of one contender's launches in a graph
ROUNDS = 7
SET_BYTES = 4  # times the L2 cache: what the sets of tensors hold together
MOST_SETS = 16
READY_S = 60  # what a process may take to be ready, beside what its peers take to compile
MEASURE_S = 60
WRONG_INTEGERS = 1e-3  # part of whole numbers that may differ where values lie at a limit of rounding


class Late(Exception):
    """What took too long."""


@contextlib.contextmanager
def within(seconds: float):
    """Raises Late in what takes longer, again each two seconds, as libraries catch what they do not know."""

    def late(*_):
        raise Late(f"more than {seconds:.0f} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def tensors_in(case: Case, sizes: dict, consts: dict, seed: int, dtype: str) -> dict:
    """The arguments of a launch on the GPU; `dtype` is the type of the kernel's const types."""
    types = [p.name for p in case.kernel.parameters if p.kind == "type"]
    drawn = {**consts, **{n: "f32" if dtype == "bf16" else dtype for n in types if dtype}}
    args = case.arguments(sizes, drawn, seed)
    if args is None:
        return None
    narrow = {p.name: dtype for p in case.kernel.parameters if p.dtype in types} if dtype == "bf16" else {}
    return tensors_of(args, "cuda", narrow)


def outputs(case: Case, args: dict, outs) -> list:
    """`inout` and `out` tensors in the order of the source."""
    left = iter([] if outs is None else list(outs) if isinstance(outs, tuple) else [outs])
    kinds = [p for p in case.kernel.parameters if p.kind in ("inout", "out")]
    return [args[p.name] if p.kind == "inout" else next(left) for p in kinds]


def copied(args: dict) -> dict:
    return {n: a.clone() if isinstance(a, torch.Tensor) else a for n, a in args.items()}


def peer(case: Case, names: TorchNames, sizes: dict, consts: dict, args: dict):
    """The reference as a function of a dict of tensors; None if it takes none, which a compiler folds away."""
    known = {**sizes, **case.bound(consts), **args}
    takes = [n for n in inspect.signature(case.reference).parameters if n != "xp"]
    fixed = {n: known[n] for n in takes if not isinstance(known[n], torch.Tensor)}
    reference, left = case.reference, [n for n in takes if n not in fixed]

    def run(tensors: dict):
        return reference(names, **fixed, **{n: tensors[n] for n in left})

    return run if left else None


def check_small(case: Case, dtype: str) -> None:
    """Every alternative of sizes and consts of the head, against NumPy. Raises if one is wrong."""
    for number, text in enumerate(case.consts):
        for sizes_text in case.sizes:
            consts = case.consts_of(text)
            sizes = sizes_of(sizes_text, np.random.default_rng(100 * number))
            args = case.arguments(sizes, consts, 0)
            if args is None:
                continue
            with np.errstate(all="ignore"):
                want = case.refer(np, {n: wide(a) for n, a in args.items()}, sizes, consts)
            tensors = tensors_of(args, "cuda")
            got = outputs(case, tensors, case.launch(tensors, sizes, consts))
            off = max(deviation(g.cpu().numpy(), w, case.allowed) for g, w in zip(got, want))
            if not off <= 1:
                raise ValueError(f"at {sizes} {text} off by {off:.3g} times what is allowed")


def signed(x: torch.Tensor) -> torch.Tensor:
    """The bits of u64 as i64, as which references in PyTorch compute them."""
    return x.view(torch.int64) if x.dtype == torch.uint64 else x


def off_by(got: torch.Tensor, want: torch.Tensor, allowed: float) -> float:
    """As suite.deviation, on the GPU; of whole numbers a small part may differ."""
    if got.shape != want.shape:
        return float("inf")
    if not got.dtype.is_floating_point:
        return (signed(got) != signed(want)).double().mean().item() / WRONG_INTEGERS
    g, w = got.double(), want.double()
    same = (g == w) | (g.isnan() & w.isnan())
    off = torch.where(same, 0.0, (g - w).abs())
    if not off.isfinite().all():
        return float("inf")
    size = torch.where(w.isfinite(), w, 0.0).abs()
    norm, allowed = size.square().mean().sqrt(), max(allowed, TOLERANCE[str(got.dtype)[6:]])
    whole = off.square().mean().sqrt() / (norm + 1e-6) / allowed
    return max(whole.item(), ((off / (size + norm + 1e-6)).max() / (16 * allowed)).item())


class Measured:
    """A kernel with its tensors, ready to be timed."""

    def __init__(self, case: Case, dtype: str, peers: list, compile_s: float, lock):
        self.case, self.lock = case, lock
        self.row: dict = {"kernel": case.name, "failed": {}, "host": []}
        self.consts = case.consts_of(case.bench_consts or case.consts[0])
        for p in case.kernel.parameters:
            if p.kind == "type" and dtype:
                self.consts[p.name] = dtype
        self.sizes = sizes_of(case.bench_gpu or case.bench, np.random.default_rng(0))
        self.args = tensors_in(case, self.sizes, self.consts, 1, dtype)
        self.bytes = case.bytes_moved(self.sizes, self.consts)
        self._describe()
        check_small(case, dtype)
        self._check()
        self._contenders(peers, compile_s)

    def _describe(self) -> None:
        v = self.case.kernel.explain(**self.case.named(self.args, self.sizes, self.consts))
        fixed = {*self.sizes, *self.consts}
        chosen = v.specialization.partition(";")[0].split(", ")
        self.row.update(
            sizes=self.sizes,
            consts=self.consts,
            chosen=" ".join(c for c in chosen if c.partition("=")[0] not in fixed),
            threads=v.threads,
            registers=v.registers,
            spilled=v.spill_bytes,
            stack=v.stack_bytes,
            shared=v.shared_bytes,
            programs=v.programs,
            compile_ms=v.compile_ms,
        )

    def _check(self) -> None:
        """The timed problem, against the reference in float64 on the GPU where it runs there."""
        exact = {
            n: a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for n, a in self.args.items()
        }
        args = copied(self.args)
        got = outputs(self.case, args, self.case.launch(args, self.sizes, self.consts))
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            with within(40):
                want = self.case.refer(TorchNames("cuda"), exact, self.sizes, self.consts)
            self.row["off"] = max(off_by(g, w, self.case.allowed) for g, w in zip(got, want, strict=True))
        except Exception as error:
            self.row["failed"]["check"] = said(error)
        finally:
            del exact
            want = None
            torch.cuda.empty_cache()
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _contenders(self, peers: list, compile_s: float) -> None:
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        n = int(np.clip(-(-SET_BYTES * l2 // max(self.bytes, 1)), 1, MOST_SETS))
        self.sets = [self.args] + [copied(self.args) for _ in range(n - 1)]
        inouts = [p.name for p in self.case.kernel.parameters if p.kind == "inout"]
        self.kept = {n: self.args[n].clone() for n in inouts}
        outs = {id(s): self.case.launch(s, self.sizes, self.consts) for s in self.sets}
        launch = lambda s: self.case.launch(s, self.sizes, self.consts, out=outs[id(s)])  # noqa: E731
        self.contenders = {"tile": launch}
        eager = peer(self.case, TorchNames("cuda"), self.sizes, self.consts, self.args)
        for name in peers if eager else []:
            run = eager if name == "eager" else torch.compile(eager, dynamic=False)
            try:
                with within(compile_s):
                    run(self.sets[0])
                    torch.cuda.synchronize()
                self.contenders[name] = run
            except Exception as error:
                self.row["failed"][name] = said(error)
        self.restore()

    def restore(self) -> None:
        for s in self.sets:
            for name, was in self.kept.items():
                s[name].copy_(was)

    def time(self) -> dict:
        """Adds the times of all contenders in ms, their ratios, and the time of a copy: that of the driver or
        that of a kernel with vectors of 16 bytes, whichever is faster. The driver's takes half as long again
        for some sizes."""
        words = max(-(-self.bytes // 32) * 4, 64)  # of a half, in whole vectors of 16 bytes
        pairs = [torch.empty((2, words), dtype=torch.int32, device="cuda") for _ in self.sets]
        runs = {}
        for name, run in self.contenders.items():
            try:
                runs[name] = self._graph(run, self.sets, name)
            except Exception as error:
                if name == "tile":
                    raise
                self.row["failed"][name] = said(error)
        runs["copy by driver"] = self._graph(lambda p: p[0].copy_(p[1]), pairs, "copy")
        runs["copy by kernel"] = self._graph(lambda p: torch.bitwise_not(p[1], out=p[0]), pairs, "copy")
        times: dict = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, (run, n) in runs.items():
                if not times[name] or times[name][-1] * n < 300:
                    self.restore()
                    times[name].append(elapsed(run) / n)
        self.row.update({name: float(np.median(t)) for name, t in times.items()})
        row = self.row
        row["copy"] = min(row["copy by driver"], row["copy by kernel"])
        best = min((row[n] for n in self.contenders if n != "tile" and n in row), default=None)
        row["ratio"] = best / row["tile"] if best else None
        row["of_copy"] = row["copy"] / row["tile"]
        row["bytes"], row["streams"] = self.bytes, self.case.streams
        return row

    def _graph(self, run, sets: list, name: str):
        """A function that runs the launches, and their number."""
        run(sets[0])
        once = max(elapsed(lambda: run(sets[0])), 1e-3)
        if once > 100:
            return lambda: run(sets[0]), 1
        n = len(sets) * max(1, min(round(GRAPH_MS / once / len(sets)), 64))

        def all_of_them():
            for i in range(n):
                run(sets[i % len(sets)])

        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                all_of_them()
            graph.replay()
        except Exception:
            torch.cuda.synchronize()
            self.row["host"].append(name)
            return all_of_them, n
        return graph.replay, n


def elapsed(run) -> float:
    """Milliseconds of the GPU by events."""
    torch.cuda.synchronize()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    run()
    last.record()
    last.synchronize()
    return first.elapsed_time(last)


def said(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:160]


def worker(case: Case, o) -> None:
    """One kernel: says "loaded", "ready" and its row on stdout, and waits for a line before the next step."""

    def step(word: str) -> None:
        print(word, flush=True)
        sys.stdin.readline()

    row = {"kernel": case.name, "failed": {}}
    torch.set_grad_enabled(False)
    step("loaded")
    try:
        with open(o.lock, "w") as lock:
            measured = Measured(case, o.type, [p for p in o.peers.split(",") if p], o.compile, lock)
            step("ready")
            row = measured.time()
            if o.tune:
                row["tune"] = tuned(measured, o.tune)
    except Exception as error:
        row["failed"]["tile"] = said(error)
    print("row " + json.dumps(row), flush=True)


def tuned(m: Measured, seconds: float) -> list:
    """The configurations of the space of `auto`, the fastest first: text, ms, whether it is the choice."""
    found = m.case.kernel.tune(**m.case.named(m.args, m.sizes, m.consts), budget=seconds)
    return [[r.config, r.ms, r.is_default, r.registers] for r in found if r.state == "timed"]


class Process:
    """A worker, as its parent sees it."""

    def __init__(self, name: str, arguments: list, peers: str):
        self.name, self.peers, self.early, self.killed = name, peers, None, False
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(
            [sys.executable, str(RUN), *arguments, f"--worker={name}", f"--peers={peers}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def go(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write("\n")
            self.child.stdin.flush()

    def answer(self, word: str, until: float) -> str | None:
        """The rest of the next line that begins with the word; None: the process has ended, or was ended
        because none came until then."""
        timer = threading.Timer(max(until - time.time(), 0.1), self._kill)
        timer.start()
        try:
            for line in self.child.stdout:
                if line.startswith(word):
                    return line[len(word) :]
                if line.startswith("row "):
                    self.early = line[4:]
                    return None
            return None
        finally:
            timer.cancel()

    def _kill(self) -> None:
        self.killed = True
        self.child.kill()

    def row(self, ready: bool) -> dict:
        text = self.answer("row ", time.time() + MEASURE_S) if ready else self.early
        self.child.wait()
        self.errors.seek(0)
        last = (self.errors.read().strip().splitlines() or ["no message"])[-1][:160]
        if self.killed:
            last = "it took too long and was ended"
        return json.loads(text) if text else {"kernel": self.name, "failed": {"tile": last}}


def rows_of(found: list, o, arguments: list):
    """The rows of all kernels, as they come. What is not ready in time starts again with eager mode alone:
    no alarm ends a compiler that unrolls the loop of a reference."""
    loops = {case.name: "range(" in inspect.getsource(case.reference) for case in found}
    left = [(n, o.peers) for n in sorted(loops, key=lambda n: (loops[n], n))]
    with tempfile.NamedTemporaryFile() as lock:
        arguments = [*arguments, f"--lock={lock.name}"]

        def start() -> list:
            some, left[:] = left[: o.jobs], left[o.jobs :]
            return [Process(n, arguments, peers) for n, peers in some]

        wave = start()
        while wave:
            for p in wave:
                p.answer("loaded", time.time() + READY_S)
                p.go()
            until = time.time() + READY_S + o.compile
            ready = [p.answer("ready", until) is not None for p in wave]
            again = [p for p in wave if p.killed and "inductor" in p.peers]
            left += [(p.name, "eager") for p in again]
            after = start()
            for p, good in zip(wave, ready):
                if good:
                    p.go()
                if p not in again:
                    yield p.row(good)
            wave = after


def table(rows: list) -> None:
    """The rows, and the quantiles of both ratios."""
    print("| kernel | tile, ms | eager | inductor | ratio | of a copy | registers, spilled | chosen |")
    print("|---|---|---|---|---|---|---|---|")
    for r in rows:
        if "tile" not in r:
            continue
        marks = {n: "h" if n in r["host"] else "" for n in ("tile", "eager", "inductor")}
        ms = [f"{r[n]:.4f}{mark}" if n in r else "-" for n, mark in marks.items()]
        ratio = format(r["ratio"], ".2f") if r.get("ratio") else "-"
        of_copy = f"{r['of_copy']:.2f}{'' if r['streams'] else ' n'}"
        used = f"{r['threads']} x {r['registers']}, {r['spilled']}"
        print(f"| {r['kernel']} | {' | '.join(ms)} | {ratio} | {of_copy} | {used} | {r['chosen']} |")
    quantiles("best peer", [r["ratio"] for r in rows if r.get("ratio")])
    quantiles("a copy, kernels that stream", [r["of_copy"] for r in rows if r.get("streams") and "tile" in r])
    for r in rows:
        if r.get("off", 0) > 1:
            print(f"{r['kernel']}: off by {r['off']:.3g} times what is allowed at the timed sizes")
        for name, why in r["failed"].items():
            print(f"{r['kernel']}: {name} failed: {why}")


def quantiles(of: str, ratios: list) -> None:
    if ratios:
        share = sum(x >= 1 for x in ratios) / len(ratios)
        print(
            f"of {of}: {len(ratios)} kernels, share at 1.0 or more {share:.0%}, 10th percentile "
            f"{np.quantile(ratios, 0.1):.2f}, minimum {min(ratios):.2f}, median {np.median(ratios):.2f}"
        )


def run(found: list, o, arguments: list) -> int:
    rows, begin = [], time.time()
    for row in rows_of(found, o, arguments):
        rows.append(row)
        figures = " ".join(f"{n} {row[n]:.3f}" for n in ("tile", "eager", "inductor", "copy") if n in row)
        now = f"{time.time() - begin:.0f} s {row['kernel']}: {figures or row['failed']}"
        print(now, file=sys.stderr, flush=True)
        if o.json:
            o.json.write_text(json.dumps(rows, indent=1))
    table(sorted(rows, key=lambda r: r.get("ratio") or 0))
    wrong = [r for r in rows if "tile" not in r or r.get("off", 0) > 1]
    return 1 if wrong else 0
