"""The short way of a call with NumPy arrays or PyTorch tensors.

The first call of a kernel with arrays of some shapes, strides and types goes the long way (_call._Call). It
leaves a *plan* behind: the arguments as libtile takes them, in one buffer, in which only addresses and
scalars change. Later calls run a function that is generated for the kernel and the library of the arrays: it
looks the plan up, allocates the outputs, writes the addresses into the buffer and launches. Each plan is used
by one thread at a time; a second thread that calls meanwhile makes a plan of its own.
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


class _Family:
    """What the generated function says of arrays of one library; {0} stands for an array, {n} for the number
    of an output. `names` are the names that it uses."""

    def __init__(self, kernel: Any, call: Any):
        self.names = {
            "D": kernel._defaults,
            "P": {},
            "L": call.handle.context._lib.tile_launch,
            "N": ctypes.c_size_t(call.n),
            "S": _slow,
        }


class _NumPy(_Family):
    key = ("{0}.shape", "{0}.strides", "{0}.dtype")
    test = "type({0}) is A"
    make = "E(s{n}, t{n})"
    same = "{0}.shape == s{1} and {0}.strides == q{1} and {0}.dtype == t{1}"

    def __init__(self, kernel: Any, call: Any):
        super().__init__(kernel, call)
        numpy, memory = sys.modules["numpy"], _memory_of_arrays()
        self.names.update(A=numpy.ndarray, E=numpy.empty, m=memory.words if memory else None)
        self.address = f"m[(id({{0}}) >> 3) + {memory.head}]" if memory else "{0}.ctypes.data"
        self.writable = f"m[(id({{0}}) >> 3) + {memory.flags}] & 0x400" if memory else "{0}.flags.writeable"

    def facts(self, a: Any) -> tuple:
        return (a.shape, a.strides, a.dtype)

    def made_like(self, a: Any) -> Any:
        return self.names["E"](a.shape, a.dtype)


class _Torch(_Family):
    key = ("{0}.shape", "{0}.stride()", "{0}.dtype", "{0}.device")
    test = "type({0}) is A and {0}.layout is Z and not {0}.is_neg() and not ({0}.requires_grad and G())"
    make = "E(s{n}, dtype=t{n}, device=v)"
    same = "{0}.shape == s{1} and {0}.stride() == q{1} and {0}.dtype == t{1} and {0}.device == v"
    address, writable = "{0}.data_ptr()", "True"

    def __init__(self, kernel: Any, call: Any):
        super().__init__(kernel, call)
        torch = sys.modules["torch"]
        self.names.update(
            A=torch.Tensor,
            E=torch.empty,
            Z=torch.strided,
            G=torch.is_grad_enabled,
            C=torch.cuda.current_stream,
        )

    def facts(self, a: Any) -> tuple:
        return (a.shape, a.stride(), a.dtype, a.device)

    def made_like(self, a: Any) -> Any:
        return self.names["E"](a.shape, dtype=a.dtype, device=a.device)


def _key(kernel: Any, family: _Family, values: Mapping[str, Any]) -> tuple:
    """As the generated function makes it."""
    key: list = []
    for p in kernel._given:
        a = values.get(p.name)
        if p.kind == "scalar":
            if p.name in kernel._derived:
                key.append(p.default if a is None else a)
        elif p.optional:
            key.append(None if a is None else family.facts(a))
        else:
            key += family.facts(a)
    return tuple(key)


def _arguments(kernel: Any, family: _Family) -> tuple:
    """The texts of the parameters, of the tests that they must pass, of the key and of what is written."""
    at = {p.name: i for i, p in enumerate(kernel._launched)}
    n, heads, tests, key, writes = len(kernel._launched), [], [], [], []
    for j, p in enumerate(kernel._given):
        a, slot = f"_{j}", 2 * n + 4 * at[p.name]
        heads.append(f"{a}=D[{j}], ")
        if p.kind == "scalar":
            real = kernel._floats[at[p.name]]
            least = -1 << 63 if p.dtype in _lib.DTYPE and p.dtype != "u64" else 0
            whole = f"type({a}) is int and {least} <= {a} < {1 << 63}"
            tests.append(f"(type({a}) is float or {whole})" if real else whole)
            writes.append(f"{'f' if real else 'i'}[{2 * at[p.name] + 1}] = {a}")
            if p.name in kernel._derived:
                key.append(a)
            continue
        test, write = family.test.format(a), f"w[{slot}] = {family.address.format(a)}"
        if p.kind == "inout":
            test += f" and {family.writable.format(a)}"
        facts = [part.format(a) for part in family.key]
        if p.optional:
            test, write = f"({a} is None or {test})", f"if {a} is not None: {write}"
            facts = [f"None if {a} is None else ({', '.join(facts)})"]
        tests.append(test)
        writes.append(write)
        key += facts
    for j, p in enumerate(kernel._outs):
        writes.append(f"w[{2 * n + 4 * at[p.name]}] = {family.address.format(f'o{j}')}")
    return heads, tests, key, writes


def _generate(kernel: Any, family: _Family) -> str:
    """The text of __call__ for the kernel. Its names: _0, _1, .. the arguments; w, i, f the buffer as
    unsigned and signed integers and floats; o0, o1, .. outputs with shape s, strides q and type t; c the
    context; v the device; z the descriptor of the launch on a GPU, and d its address."""
    heads, tests, key, writes = _arguments(kernel, family)
    outs = range(len(kernel._outs))
    made = [f"o{n} = {family.make.format(n=n)}" for n in outs]
    results = ", ".join(f"o{n}" for n in outs)
    slow = f"S(self, ({''.join(f'_{j}, ' for j in range(len(heads)))})"
    lines = [
        f"def __call__(self, {''.join(heads)}{'/, ' if heads else ''}*more, out=None, stream=None, **named):",
        f"    if not (more or named) and stream is None{''.join(' and ' + t for t in tests)}"
        f"{'' if len(outs) else ' and out is None'}:",
        f"        pool = P.get(({', '.join(key)}{',' if key else ''}))",
        "        if pool is not None:",
        "            try: plan = pool.pop()",
        "            except IndexError: plan = pool.make()",
        f"            w, i, f, h, a, c, v, z, d{''.join(f', s{n}, q{n}, t{n}' for n in outs)} = plan",
    ]
    if len(outs):
        # Several outputs are a tuple, whose length no kernel with one output has to ask for.
        several = f"type(out) is tuple and len(out) == {len(outs)} and "
        names = ["out"] if len(outs) == 1 else [f"out[{n}]" for n in outs]
        same = " and ".join(
            f"{family.test.format(o)} and {family.same.format(o, n)} and {family.writable.format(o)}"
            for n, o in enumerate(names)
        )
        lines += [
            f"            if out is None: {'; '.join(made)}",
            f"            elif {several if len(outs) > 1 else ''}{same}: {results} = out",
            f"            else: return {slow}, (), out, None, named)",
        ]
    lines += ["            " + text for text in writes]
    lines += [
        "            if z is not None: z[1] = C(v).cuda_stream",
        "            status = L(h, a, N, d)",
        "            pool.append(plan)",
        # A launch of the same key may need a workspace, for an address of another alignment: it has done nothing.
        f"            if status == {_lib.ERROR_WORKSPACE}: return {slow}, (), out, None, named)",
        "            if status: c._check(status)",
        f"            return {results if len(outs) else 'None'}",
        f"    return {slow}, more, out, stream, named)",
    ]
    return "\n".join(lines) + "\n"


def _slow(self: Any, args: tuple, more: tuple, out: Any, stream: Any, named: Mapping[str, Any]) -> Any:
    """Of a call with keywords: what is an argument takes its place, and the rest is bound, which gives a
    kernel with a short way of its own. A default that stands in the place of an argument does not count if
    the argument is given by name."""
    if more:
        return self._slow_call(args + more, out, stream, named)
    placed, bound, outs = list(args), {}, {}
    for name, value in named.items():
        j = self._places.get(name)
        if j is None:
            (outs if name in self._names else bound)[name] = value
        elif args[j] is _MISSING or args[j] is self._given[j].default:
            placed[j] = value
        else:
            return self._slow_call(args, out, stream, named)  # given twice, which it says
    if not named or outs or any(a is _MISSING for a in placed):
        values = {p.name: a for p, a in zip(self._given, placed) if a is not _MISSING}
        return self._slow_call((), out, stream, {**values, **outs, **bound})
    return (self.bind(**bound) if bound else self)(*placed, out=out, stream=stream)


def _install(kernel: Any, call: Any) -> _Family:
    """Generates the function for the library of the call's arrays. Calls that are not NumPy's go on to that
    for PyTorch, if there is one."""
    family = (_NumPy if call.like.family == "numpy" else _Torch)(kernel, call)
    exec(compile(_generate(kernel, family), f"<tile {kernel.name}>", "exec"), family.names)
    kernel._families[call.like.family] = family
    first, second = kernel._families.get("numpy"), kernel._families.get("torch")
    if first and second:
        torch_call = second.names["__call__"]

        def onward(self: Any, args: tuple, more: tuple, out: Any, stream: Any, named: Any) -> Any:
            return torch_call(self, *args, *more, out=out, stream=stream, **named)

        first.names["S"] = onward
    type(kernel).__call__ = (first or second).names["__call__"]
    return family


def _maker(call: Any, family: _Family) -> Callable[[], tuple]:
    """Makes plans like the call's. They hold no array of the caller's."""
    n, launched, handle = call.n, call.kernel._launched, call.handle
    scalars, tensors, rest = {}, {}, []
    for k, p in enumerate(launched):
        if p.kind == "scalar":
            scalars[k] = _lib.ARG_FLOAT if call.kernel._floats[k] else _lib.ARG_INT
        elif p.name in call.views:
            v = call.views[p.name]
            tensors[k] = (v.shape, v.strides, len(v.shape) | _lib.DTYPE[v.dtype] << 32)
    for p in call.kernel._outs:
        rest += family.facts(call.values[p.name])[:3]
    size = 6 * n + sum(2 * len(shape) for shape, _, _ in tensors.values())
    on_gpu = call.like.device != _arrays.CPU
    device = getattr(call.like.keep, "device", None)

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
        z = (ctypes.c_uint64 * 4)(ctypes.sizeof(_lib.LaunchDesc)) if on_gpu else None
        d = ctypes.c_void_p(ctypes.addressof(z)) if on_gpu else None
        a = ctypes.c_void_p(base)
        return (words, signed, real, handle.pointer, a, handle.context, device, z, d, *rest)

    return make


def _remember(call: Any, stream: Any) -> None:
    """Leaves a plan for calls like this one, if all of its arrays are NumPy's own or PyTorch's own."""
    kernel, like = call.kernel, call.like
    if stream is not None or like is None or like.family not in ("numpy", "torch"):
        return
    own = sys.modules["numpy"].ndarray if like.family == "numpy" else sys.modules["torch"].Tensor
    if any(type(call.values[name]) is not own for name in call.views):
        return
    with _lock:
        floats = [dtype in _lib.FLOATS for dtype in call.handle.dtypes]
        if not kernel._families:
            kernel._floats = floats
        family = kernel._families.get(like.family) or _install(kernel, call)
        outs = [call.values[p.name] for p in kernel._outs]
        if kernel._floats != floats or any(
            family.facts(a)[1] != family.facts(family.made_like(a))[1] for a in outs
        ):
            return  # other scalars, or outputs of the caller's that are not as those that are allocated
        plans = family.names["P"]
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        key = _key(kernel, family, call.values)
        if key not in plans:
            pool = _Pool()
            pool.make = _maker(call, family)
            plans[key] = pool
