"""The kernels of bench/ported: what the comments at a kernel's head say, its arguments, its reference.

The head of a kernel's file has the lines of tests/run/kernel_file.h, which the interpreter and the emulators
read too, and in addition

    // bench: M=4096 N=4096          the sizes that are timed
    // bench-consts: H=32            consts of the timed launch; without: those of the first alternative
    // bench-gpu: M=16384 N=4096     other sizes on a GPU, where those of `bench` are small for one
    // bench-bytes: 12*T*N           bytes that must move, where they are not those of all tensors; 0 where
                                     they do not bound the time (products, sorts, recurrences)
    // deviation: 2e-3               that of the outputs, where `mma` allows more than their types do (fp8,
                                     docs/language.md)

The reference of `kernel NAME` is the function NAME of a module in references/. Its parameters have names of
the kernel's tensors, scalars, sizes and consts; `xp` is numpy, or PyTorch with the names of numpy. It returns
what the kernel writes, in the order of the source: `inout` tensors and `out` tensors. In the reference run
every floating argument is float64.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "bindings/python")]
os.environ.setdefault("TILE_LIBRARY", str(ROOT / "build/release/runtime/libtile.so"))
import tile  # noqa: E402

NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_}
NUMPY |= {f"{sign}{bits}": np.dtype(f"{sign}{bits // 8}") for sign in "iu" for bits in (8, 16, 32, 64)}
MODULES = sorted(p.stem for p in (HERE / "references").glob("[a-z]*.py"))


def head(text: str, key: str) -> str:
    found = re.search(rf"^// {key}: (.*)$", text, re.M)
    return found.group(1).strip() if found else ""


def alternatives(line: str) -> list[str]:
    return [part.strip() for part in line.split("|")] if line else [""]


def sizes_of(text: str, rng: np.random.Generator) -> dict[str, int]:
    """One draw of `M=1..9 P=M+3/4`: terms are numbers, ranges or names; operators go from left to right."""
    known: dict[str, int] = {}
    for item in text.split():
        name, _, formula = item.partition("=")
        value, op = 0, "+"
        for term, then in re.findall(r"(\d+\.\.\d+|\w+)([-+*/]?)", formula):
            low, dots, high = term.partition("..")
            if dots:
                right = int(rng.integers(int(low), int(high) + 1))
            else:
                right = int(term) if term.isdigit() else known[term]
            value = {"+": value + right, "-": value - right, "*": value * right, "/": value // max(right, 1)}[
                op
            ]
            op = then
        known[name] = value
    return known


def filled(fill: str, shape: tuple, dtype: np.dtype, sizes: dict, rng: np.random.Generator) -> np.ndarray:
    """An input as tests/run/cases.h describes fills."""
    kind, _, limit = fill.partition(":")
    most = int(limit) if limit.isdigit() else sizes.get(limit, 4)
    whole = np.issubdtype(dtype, np.integer)
    if kind == "unit":
        values = rng.random(shape, np.float32)
    elif kind == "ones":
        values = np.ones(shape)
    elif kind == "index":
        values = rng.integers(0, max(most, 1), shape)
    elif kind == "offsets":
        inner = np.sort(rng.integers(0, most + 1, max(shape[-1] - 2, 0)))
        values = np.broadcast_to(np.concatenate([[0], inner, [most]])[: shape[-1]], shape)
    elif kind == "int" or whole or dtype == np.bool_:
        unsigned = dtype == np.bool_ or not np.issubdtype(dtype, np.signedinteger) and whole
        values = rng.integers(0 if unsigned else -most, most + 1, shape)
    else:
        values = rng.standard_normal(shape, np.float32)
    return values.astype(dtype)


class Case:
    """A kernel of the suite. `sizes` and `consts` are the alternatives that are checked."""

    def __init__(self, path: Path):
        self.path, self.name, text = path, path.stem, path.read_text()
        self.kernel = tile.load(str(path))[self.name]
        self.sizes, self.consts = alternatives(head(text, "sizes")), alternatives(head(text, "consts"))
        self.bench, self.bench_consts = head(text, "bench"), head(text, "bench-consts")
        self.bench_gpu, self.bench_bytes = head(text, "bench-gpu"), head(text, "bench-bytes")
        self.allowed = float(head(text, "deviation") or 0)
        self.source = (re.search(r"\b[Aa]fter (.*?)\.$", text, re.M) or re.search("()", text)).group(1)
        fills = [item.split() for item in head(text, "fill").split(";") if item.strip()]
        fills += [
            (t.split()[1].partition("[")[0], t.split()[3])
            for t in head(text, "tensors").split(";")
            if len(t.split()) > 3
        ]
        self.fills = dict(fills)
        scalars = re.findall(r"\w+ (\w+)=([-\w.+]+)", head(text, "scalars"))
        self.scalars = {name: float(v) if re.search(r"[.en]", v) else int(v) for name, v in scalars}
        self.reference = next(
            (
                f
                for m in MODULES
                if (f := getattr(importlib.import_module(f"references.{m}"), self.name, None))
            ),
            None,
        )

    def consts_of(self, text: str) -> dict:
        return {
            n: int(v) if re.fullmatch(r"-?\d+", v) else v for n, v in (c.split("=") for c in text.split())
        }

    def bound(self, consts: dict) -> dict:
        """Every const and type with its value, `auto` constants left out."""
        values = {}
        for p in self.kernel.parameters:
            if p.kind in ("const", "type"):
                value = consts.get(p.name, p.default)
                if value is not None and (p.name in consts or p.kind == "type" or not self.is_auto(p.name)):
                    values[p.name] = value
        return values

    def is_auto(self, name: str) -> bool:
        return re.search(rf"\b{name} = auto\b", self.kernel.source) is not None

    def arguments(self, sizes: dict, consts: dict, seed: int) -> dict | None:
        """What a launch is given, by name. None: NumPy has no such type."""
        rng, args, bound = np.random.default_rng(seed), {}, self.bound(consts)
        for p in self.kernel.parameters:
            if p.kind == "scalar":
                value = self.scalars.get(p.name, p.default if p.has_default else None)
                args[p.name] = value if value is not None else (3 if p.dtype[0] in "iu" else 0.375)
            elif p.kind in ("in", "inout"):
                dtype = NUMPY.get(str(bound.get(p.dtype, p.dtype)))
                if dtype is None:
                    return None
                shape = tuple(int(extent(d, {**bound, **sizes})) for d in p.dims)
                args[p.name] = filled(self.fills.get(p.name, "normal"), shape, np.dtype(dtype), sizes, rng)
        return args

    def named(self, args: dict, sizes: dict, consts: dict) -> dict:
        """What a call of the kernel is given."""
        bound = {p.name for p in self.kernel.parameters if p.kind in ("const", "type")}
        return {**args, **consts, **{n: v for n, v in self.needed(sizes).items() if n not in bound}}

    def launch(self, args: dict, sizes: dict, consts: dict, out=None):
        """The outputs in the order of the source; `inout` arguments are changed."""
        return self.kernel(**self.named(args, sizes, consts), out=out)

    @property
    def streams(self) -> bool:
        """Whether the bytes that must move bound its time."""
        return self.bench_bytes != "0"

    def bytes_moved(self, sizes: dict, consts: dict) -> int:
        """The bytes that a launch must read and write: of all tensors once, if the head does not say else."""
        bound = {**self.bound(consts), **sizes}
        if self.bench_bytes and self.streams:
            formula = re.sub(r"sizeof\((\w+)\)", lambda m: str(bytes_of(bound[m[1]])), self.bench_bytes)
            return int(extent(formula, bound))
        total = 0
        for p in self.kernel.parameters:
            if p.kind in ("in", "inout", "out"):
                elements = np.prod([int(extent(d, bound)) for d in p.dims], dtype=np.int64)
                width = bytes_of(str(bound.get(p.dtype, p.dtype)))
                total += int(elements) * width * (2 if p.kind == "inout" else 1)
        return total

    def needed(self, sizes: dict) -> dict:
        """Sizes that no input has, which outputs are allocated by."""
        parameters = self.kernel.parameters
        given = {w for p in parameters if p.kind in ("in", "inout") for w in p.dims}
        wanted = {
            w for p in parameters if p.kind == "out" for d in p.dims for w in re.findall(r"[A-Za-z_]\w*", d)
        }
        return {n: v for n, v in sizes.items() if n in wanted - given}

    def refer(self, xp, args: dict, sizes: dict, consts: dict) -> list:
        """What the reference computes, as a list."""
        known = {**sizes, **self.bound(consts), **args}
        values = {n: known[n] for n in inspect.signature(self.reference).parameters if n != "xp"}
        got = self.reference(xp, **values)
        return list(got) if isinstance(got, (tuple, list)) else [got]


def bytes_of(dtype: str) -> int:
    """The bytes of an element."""
    return 1 if dtype == "bool" else int(re.match(r"[a-z]+(\d+)", dtype).group(1)) // 8


def extent(formula: str, known: dict) -> int:
    text = re.sub(r"\bcdiv\(", "_cdiv(", formula.replace("/", "//"))
    return eval(text, {"_cdiv": lambda a, b: -(-a // b), "min": min, "max": max}, known)  # noqa: S307


def wide(a):
    """float64 of floating arrays, whole numbers as they are."""
    return a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a


# Relative deviation of outputs by type, as docs/tuning.md has them.
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-3, "bfloat16": 1.6e-2}


def deviation(got: np.ndarray, want: np.ndarray, allowed: float) -> float:
    """How far an output is off, in units of what is allowed, by its type at least: up to 1 is right."""
    want = np.asarray(want)
    if got.shape != want.shape:
        return float("inf")
    if got.dtype.kind != "f":
        return 0.0 if np.array_equal(got, want) else float("inf")
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        g, w = np.where(same, 0, got.astype(np.float64)), np.where(same, 0, want.astype(np.float64))
        if not (np.isfinite(g).all() and np.isfinite(w).all()):
            return float("inf")
        norm = np.sqrt(np.mean(np.where(np.isfinite(want), want, 0.0) ** 2)) if want.size else 0.0
        off = np.abs(g - w)
        allowed = max(allowed, TOLERANCE[got.dtype.name])
        whole = np.sqrt(np.mean(off**2)) / (norm + 1e-6) / allowed if off.size else 0.0
        each = (off / (np.abs(w) + norm + 1e-6)).max(initial=0.0) / (16 * allowed)
    return float(max(whole, each))


def cases(pattern: str = "") -> list[Case]:
    return [Case(p) for p in sorted((HERE / "kernels").glob("*.tile")) if re.search(pattern, p.stem)]
