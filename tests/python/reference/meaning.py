"""What operations mean, in NumPy and whole numbers of Python: docs/language.md said again. Nothing here comes
from the compiler."""

import numpy as np

WHOLE = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "index": np.int64,
}
REAL = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
TYPES = {**WHOLE, **REAL, "bool": np.bool_}
# How tight operators bind. A unary operator has 11, a name or a call 99, `?:` 0.
BINDING = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7}
BINDING |= {"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}


def bits(t):
    return TYPES[t]().itemsize * 8


def value(x, t):
    """Numbers of Python that type t holds, as such."""
    return np.array(x, dtype=object if t in WHOLE else None).astype(TYPES[t])


def quotient(a, b):
    """Truncates. A quotient by 0 is 0, and the smallest number by -1 is itself."""
    a, b = np.broadcast_arrays(a, b)
    kind = a.dtype.type
    if a.dtype.kind == "u":
        return np.where(b == 0, kind(0), a // np.where(b == 0, kind(1), b)).astype(kind)
    simple = (b == 0) | (b == -1)
    by = np.where(simple, kind(1), b)
    q = a // by
    q = q + ((a - q * by != 0) & ((a < 0) != (by < 0))).astype(kind)
    return np.where(b == 0, kind(0), np.where(b == -1, np.zeros_like(a) - a, q)).astype(kind)


def rest(a, b):
    return np.where(b == 0, a.dtype.type(0), a - quotient(a, b) * b).astype(a.dtype)


def shifted_left(a, b):
    a, b = np.broadcast_arrays(a, b)
    fits = (b >= 0) & (b < a.dtype.itemsize * 8)
    return np.where(fits, a << np.where(fits, b, 0).astype(a.dtype), a.dtype.type(0)).astype(a.dtype)


def shifted_right(a, b):
    a, b = np.broadcast_arrays(a, b)
    fits = (b >= 0) & (b < a.dtype.itemsize * 8)
    far = np.where(a < 0, a.dtype.type(-1 if a.dtype.kind == "i" else 0), a.dtype.type(0))
    return np.where(fits, a >> np.where(fits, b, 0).astype(a.dtype), far).astype(a.dtype)


OPERATORS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": quotient,
    "%": rest,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": shifted_left,
    ">>": shifted_right,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "&&": np.logical_and,
    "||": np.logical_or,
}


def each(f, x, t):
    x = np.asarray(x)
    return value([f(v) for v in x.ravel().tolist()], t).reshape(x.shape)


def rounded(v, digits, most):
    """A whole number to the nearest float of so many binary digits, ties to even."""
    sign, v = (-1, -v) if v < 0 else (1, v)
    e = max(0, v.bit_length() - digits)
    q, r = v >> e, v & ((1 << e) - 1)
    if e and (2 * r > 1 << e or (2 * r == 1 << e and q & 1)):
        q += 1
    return sign * (float(q << e) if q << e <= most else float("inf"))


def convert(x, source, to):
    x = np.asarray(x)
    if source in REAL and to in WHOLE:
        lo, hi = int(np.iinfo(TYPES[to]).min), int(np.iinfo(TYPES[to]).max)

        def one(v):
            return (
                0
                if v != v
                else hi if v == float("inf") else lo if v == -float("inf") else min(max(int(v), lo), hi)
            )

        return each(one, x.astype(np.float64), to)
    if source in WHOLE and to in ("f16", "f32"):
        digits, most = (11, 65504) if to == "f16" else (24, float("inf"))
        return each(lambda v: rounded(v, digits, most), x, to)
    return x != 0 if to == "bool" else x.astype(TYPES[to])


def pattern(v, n):
    return v & ((1 << n) - 1)


COUNTS = {
    "popcount": lambda v, n: bin(pattern(v, n)).count("1"),
    "clz": lambda v, n: n - pattern(v, n).bit_length(),
    "ffs": lambda v, n: (pattern(v, n) & -pattern(v, n)).bit_length(),
}


def shift(x, n, axis):
    out, m = np.zeros_like(x), x.shape[axis]
    before = (slice(None),) * axis
    for i in range(max(n, 0), min(m, m + n)):
        out[before + (i,)] = x[before + (i - n,)]
    return out


def topk(x, k, places):
    """The k largest of the last axis, or their places; of equal ones the first comes first."""
    out = np.empty(x.shape[:-1] + (k,), np.int32 if places else x.dtype)
    for i in np.ndindex(x.shape[:-1]):
        row = x[i].tolist()
        order = sorted(range(len(row)), key=lambda j: (-row[j], j))[:k]
        out[i] = order if places else x[i][order]
    return out


# Functions that `reduce` and `scan` combine by: the text, and the same of tuples of arrays.
COMBINE_TEXT = """\
fn affine(p, q) { return (p[0] * q[0], p[1] * q[0] + q[1]); }
fn larger(a, b) { return b[0] > a[0] ? b : a; }
fn matrix(p, q) {
    let (a, b, c, d) = p;
    let (e, f, g, h) = q;
    return (a*e + b*g, a*f + b*h, c*e + d*g, c*f + d*h);
}
fn last(a, b) { if b == 0 { return a; } return b; }
fn runs(a, b) { return (a[0] || b[0], b[0] ? b[1] : a[1] + b[1]); }
"""
COMBINE = {
    "affine": (2, lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])),
    "larger": (2, lambda p, q: tuple(np.where(q[0] > p[0], y, x) for x, y in zip(p, q))),
    "matrix": (
        4,
        lambda p, q: tuple(p[i] * q[j] + p[i + 1] * q[j + 2] for i, j in ((0, 0), (0, 1), (2, 0), (2, 1))),
    ),
    "last": (1, lambda p, q: (np.where(q[0] == 0, p[0], q[0]),)),
    "runs": (2, lambda p, q: (p[0] | q[0], np.where(q[0], q[1], p[1] + q[1]))),
}


def combined(f, parts, axis, reverse):
    """All running results along the axis, one after another: tuples."""
    m, results = parts[0].shape[axis], []
    for i in range(m - 1, -1, -1) if reverse else range(m):
        now = tuple(np.take(p, i, axis=axis) for p in parts)
        results.append(now if not results else tuple(map(np.asarray, COMBINE[f][1](results[-1], now))))
    return results
