"""The short way of a call with NumPy arrays.

The first call of a kernel with arrays of some shapes, strides and types goes the long way (_call._Call). It
leaves a *plan* behind: the arguments as libtile takes them, in one buffer, in which only addresses and
scalars change. Later calls run a function that is generated for the kernel: it looks the plan up, allocates
the outputs, writes the addresses into the buffer and launches. Each plan is used by one thread at a time; a
second thread that calls meanwhile makes a plan of its own.
"""

from __future__ import annotations

import ctypes
import sys
import threading

from . import _arrays, _lib
from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

_MOST_PLANS = 1024
_MISSING = object()
_lock = threading.Lock()
_memory: Any = None  # _arrays.Memory, None before it is asked for, False where arrays cannot be read


class _Pool(list):
    """Plans of one key that no call uses now. `make` makes another one."""

    __slots__ = ("make",)
    make: Callable[[], tuple]


def _make_kernel(module: Any, name: str, parameters: Sequence[Any], bound: Mapping[str, Any]) -> Any:
    """Each kernel has a class of its own, which gets its generated __call__."""
    from ._kernel import Kernel

    return type("Kernel", (Kernel,), {"__module__": "tile", "__doc__": Kernel.__doc__})(
        module, name, parameters, bound
    )


def _memory_of_arrays() -> Any:
    global _memory
    if _memory is None:
        try:
            _memory = _arrays.Memory()
        except Exception:  # another Python, another NumPy: their own, slower way is right everywhere
            _memory = False
    return _memory


def _key(kernel: Any, values: Mapping[str, Any]) -> tuple:
    """As the generated function makes it."""
    key: list = []
    for p in kernel._given:
        a = values.get(p.name)
        if p.kind == "scalar":
            if p.name in kernel._derived:
                key.append(p.default if a is None else a)
        elif p.optional:
            key.append(None if a is None else (a.shape, a.strides, a.dtype))
        else:
            key += (a.shape, a.strides, a.dtype)
    return tuple(key)


def _generate(kernel: Any) -> str:
    """The text of __call__ for the kernel. Its names: _0, _1, .. the arguments; w, i, f the buffer as
    unsigned and signed integers and floats; o0, o1, .. outputs with shape s, strides q and type t."""
    memory = _memory_of_arrays()
    address = f"m[(id({{0}}) >> 3) + {memory.head}]" if memory else "{0}.ctypes.data"
    writable = f"m[(id({{0}}) >> 3) + {memory.flags}] & 0x400" if memory else "{0}.flags.writeable"
    at = {p.name: i for i, p in enumerate(kernel._launched)}
    n, outs = len(kernel._launched), kernel._outs
    heads, tests, key, writes = [], [], [], []
    for j, p in enumerate(kernel._given):
        a, slot = f"_{j}", 2 * n + 4 * at[p.name]
        optional = p.optional or p.has_default
        heads.append(f"{a}={f'D[{j}]' if optional else 'M'}")
        if p.kind == "scalar":
            view = "f" if kernel._floats[at[p.name]] else "i"
            tests.append(
                f"(type({a}) is float or type({a}) is int)"
                if view == "f"
                else f"type({a}) is int and {-1 << 63} <= {a} < {1 << 63}"
            )
            writes.append(f"{view}[{2 * at[p.name] + 1}] = {a}")
            if p.name in kernel._derived:
                key.append(a)
            continue
        if p.optional:
            tests.append(f"({a} is None or type({a}) is A)")
            key.append(f"None if {a} is None else ({a}.shape, {a}.strides, {a}.dtype)")
            writes.append(f"if {a} is not None: w[{slot}] = {address.format(a)}")
        else:
            tests.append(f"type({a}) is A")
            key += (f"{a}.shape", f"{a}.strides", f"{a}.dtype")
            writes.append(f"w[{slot}] = {address.format(a)}")
        if p.kind == "inout":
            tests.append(f"({a} is None or {writable.format(a)})")
    single = len(outs) == 1
    made = [f"o{j} = E(s{j}, t{j})" for j in range(len(outs))]
    for j, p in enumerate(outs):
        writes.append(f"w[{2 * n + 4 * at[p.name]}] = {address.format(f'o{j}')}")
    results = ", ".join(f"o{j}" for j in range(len(outs)))
    slow = f"S(self, ({''.join(f'_{j}, ' for j in range(len(heads)))})"
    lines = [
        f"def __call__(self, {''.join(h + ', ' for h in heads)}{'/, ' if heads else ''}*more, out=None, "
        "stream=None, **named):",
        f"    if not (more or named) and stream is None{''.join(' and ' + t for t in tests)}"
        f"{'' if single else ' and out is None'}:",
        f"        pool = P.get(({', '.join(key)}{',' if key else ''}))",
        "        if pool is not None:",
        "            try: plan = pool.pop()",
        "            except IndexError: plan = pool.make()",
        f"            w, i, f, h, a{''.join(f', s{j}, q{j}, t{j}' for j in range(len(outs)))} = plan",
    ]
    if single:
        lines += [
            "            if out is None: " + made[0],
            "            elif (type(out) is A and out.shape == s0 and out.strides == q0 "
            "and out.dtype == t0 and "
            f"{writable.format('out')}): o0 = out",
            "            else:",
            f"                return {slow}, (), out, None, named)",
        ]
    else:
        lines += ["            " + m for m in made]
    lines += ["            " + text for text in writes]
    lines += [
        "            status = L(h, a, N, None)",
        "            pool.append(plan)",
        "            if status: F(self, status)",
        f"            return {results if len(outs) else 'None'}",
        f"    return {slow}, more, out, stream, named)",
    ]
    return "\n".join(lines) + "\n"


def _slow(self: Any, args: tuple, more: tuple, out: Any, stream: Any, named: Mapping[str, Any]) -> Any:
    """A default that stands in the place of an argument does not count if the argument is given by name."""
    if more:
        return self._slow_call(args + more, out, stream, named)
    values = dict(named)
    for p, a in zip(self._given, args):
        if p.name not in named:
            if a is not _MISSING:
                values[p.name] = a
        elif a is not _MISSING and a is not p.default:
            return self._slow_call(args, out, stream, named)  # given twice, which it says
    return self._slow_call((), out, stream, values)


def _failed(self: Any, status: int) -> None:
    self._fast_context._check(status)


def _install(kernel: Any, call: Any) -> None:
    numpy = sys.modules["numpy"]
    kernel._floats = [dtype in _lib.FLOATS for dtype in call.handle.dtypes]
    kernel._fast_context = call.handle.context
    kernel._plans = {}
    memory = _memory_of_arrays()
    names = {
        "M": _MISSING,
        "D": [p.default for p in kernel._given],
        "A": numpy.ndarray,
        "P": kernel._plans,
        "E": numpy.empty,
        "L": call.handle.context._lib.tile_launch,
        "N": ctypes.c_size_t(call.n),
        "S": _slow,
        "F": _failed,
        "m": memory.words if memory else None,
    }
    exec(compile(_generate(kernel), f"<tile {kernel.name}>", "exec"), names)
    type(kernel).__call__ = names["__call__"]


def _maker(call: Any) -> Callable[[], tuple]:
    """Makes plans like the call's. They hold no array of the caller's."""
    n, launched, handle = call.n, call.kernel._launched, call.handle
    floats = call.kernel._floats
    scalars, tensors, rest = {}, {}, []
    for k, p in enumerate(launched):
        if p.kind == "scalar":
            scalars[k] = _lib.ARG_FLOAT if floats[k] else _lib.ARG_INT
        elif p.name in call.views:
            v = call.views[p.name]
            tensors[k] = (v.shape, v.strides, len(v.shape) | _lib.DTYPE[v.dtype] << 32)
    for p in call.kernel._outs:
        a = call.values[p.name]
        rest += (a.shape, a.strides, a.dtype)
    size = 6 * n + sum(2 * len(shape) for shape, _, _ in tensors.values())

    def make() -> tuple:
        words = (ctypes.c_uint64 * max(size, 1))()
        signed = (ctypes.c_int64 * len(words)).from_buffer(words)
        real = (ctypes.c_double * len(words)).from_buffer(words)
        base, at = ctypes.addressof(words), 6 * n
        for k, kind in scalars.items():
            words[2 * k] = kind
        for k, (shape, strides, rank_and_dtype) in tensors.items():
            t, rank = 2 * n + 4 * k, len(shape)
            words[2 * k], words[2 * k + 1] = _lib.ARG_TENSOR, base + 8 * t
            words[t + 1], words[t + 2], words[t + 3] = base + 8 * at, base + 8 * (at + rank), rank_and_dtype
            signed[at : at + rank], signed[at + rank : at + 2 * rank] = shape, strides
            at += 2 * rank
        return (words, signed, real, handle.pointer, ctypes.c_void_p(base), *rest)

    return make


def _remember(call: Any, stream: Any) -> None:
    """Leaves a plan for calls like this one, if it was one with plain NumPy arrays."""
    kernel, numpy = call.kernel, sys.modules.get("numpy")
    if stream is not None or numpy is None or call.handle.context._device != _arrays.CPU:
        return
    if not call.views or any(type(call.values[name]) is not numpy.ndarray for name in call.views):
        return
    with _lock:
        if not hasattr(kernel, "_plans"):
            _install(kernel, call)
        floats = [dtype in _lib.FLOATS for dtype in call.handle.dtypes]
        if kernel._fast_context is not call.handle.context or kernel._floats != floats:
            return
        if len(kernel._plans) >= _MOST_PLANS:
            kernel._plans.clear()
        key = _key(kernel, call.values)
        if key not in kernel._plans:
            pool = _Pool()
            pool.make = _maker(call)
            kernel._plans[key] = pool
