"""Kernels: binding, calling, and what can be asked of them."""

from __future__ import annotations

import ctypes
import os
from collections import deque

from . import _arrays, _lib
from ._call import _Call
from ._context import Context, _lock, _text
from ._errors import TYPE_CHECKING, ArgumentError, Record
from ._fast import _MISSING, _make_kernel, _slow

if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

    from ._module import Module, Parameter


class Variant(Record):
    """What a launch runs: see Kernel.explain."""

    specialization: str
    threads: int
    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int
    programs: int
    from_cache: bool
    compile_ms: float
    target: str
    device: str

    def __str__(self) -> str:
        def known(n: int, unit: str) -> str:
            return "unknown" if n < 0 else f"{n}{unit}"

        return "\n".join(
            (
                f"device:         {self.device} ({self.target})",
                f"specialization: {self.specialization}",
                f"programs:       {self.programs}, of {self.threads} threads each",
                f"registers:      {known(self.registers, '')}, spilled {known(self.spill_bytes, ' bytes')}",
                f"shared memory:  {self.shared_bytes} bytes",
                f"made in:        {self.compile_ms:.1f} ms, {'read from the disk cache' * self.from_cache}"
                f"{'compiled' * (not self.from_cache)}",
            )
        )


class TuneResult(Record):
    """One configuration that Kernel.tune tried. `ms` is 0 if it was not timed; `reason` then says why."""

    config: str
    ms: float
    state: str
    is_default: bool
    registers: int
    reason: str


def _told(value: Any) -> Any:
    """Tells a value from others in a key: 0.0 and -0.0, which are equal, and NaN, which does not equal itself,
    become texts."""
    return str(value) if isinstance(value, float) and (not value or value != value) else value


def _source_of(module: Module, name: str) -> tuple[str, str]:
    """The text of a kernel and the comment above it."""
    import re

    start = re.search(rf"^[ \t]*kernel\s+{name}\s*\(", module.source, re.M)
    if not start:
        return "", ""
    above, lines = module.source[: start.start()].split("\n")[:-1], []
    while above and above[-1].lstrip().startswith("//"):
        lines.insert(0, above.pop().strip().lstrip("/").strip())
    depth, at = 0, start.end()
    for at in range(start.end(), len(module.source)):
        depth += {"{": 1, "}": -1}.get(module.source[at], 0)
        if depth == 0 and module.source[at] == "}":
            break
    return module.source[start.start() : at + 1], "\n".join(lines)


class Kernel:
    """A kernel, called like a function: `y = k(x)`. Made by a module's subscript.

    Arguments are the `in` and `inout` tensors and the scalars in the order of the source, by position or by
    name. Consts, types, hints and dimensions are keyword arguments. `out` tensors are allocated, of the
    library and on the device of the inputs, and returned (a tuple if there are several); `out=` takes arrays
    of the caller's instead. `stream=` names the stream of a launch on a GPU; PyTorch's current one is the
    default.

    The arrays are borrowed: nothing is copied, and nothing is kept after the call. A launch on a GPU returns
    before the work is done. Raises tile.ArgumentError if an argument does not fit, tile.CompileError if the
    variant does not compile; nothing was launched then.
    """

    parameters: tuple  # of Parameter: all of them, in the order of the source

    def __init__(self, module: Module, name: str, parameters: Sequence[Parameter], bound: Mapping[str, Any]):
        self.module, self.name, self.bound = module, name, dict(bound)
        self.parameters = tuple(parameters)
        self._launched = [p for p in parameters if p.kind in ("in", "out", "inout", "scalar")]
        self._given = [p for p in self._launched if p.kind != "out"]
        self._outs = [p for p in self._launched if p.kind == "out"]
        self._names = {p.name for p in self._launched}
        self._places = {p.name: j for j, p in enumerate(self._given)}
        self._defaults = tuple(p.default if p.optional or p.has_default else _MISSING for p in self._given)
        self._types = [p.name for p in parameters if p.kind == "type" and p.name not in bound]
        self._type_defaults = {p.name: p.default for p in parameters if p.kind == "type"}
        import re

        self._derived = set(re.findall(r"\w+", " ".join(d for p in self._outs for d in p.dims)))
        self._families: dict = {}  # of _fast: the short ways of a call
        self._handles: dict[tuple, _Handle] = {}
        self._shapes: dict[tuple, list] = {}
        self._specialized: dict[tuple, Kernel] = {}
        self._seen: deque = deque(maxlen=8)  # the last launches of a new kind, without their arrays
        text, comment = _source_of(module, name)
        self.source = text
        self.__name__ = name
        self.__doc__ = "\n".join(filter(None, (comment, str(self))))

    @property
    def __signature__(self) -> Any:
        import inspect  # not at import: it takes longer than all the rest

        P, taken, parameters = inspect.Parameter, set(), []
        for p in self._given:
            default: Any = P.empty
            if p.optional or p.has_default:
                default = p.default
            kind = P.KEYWORD_ONLY if taken and default is P.empty else P.POSITIONAL_OR_KEYWORD
            if default is not P.empty:
                taken.add(p.name)
            parameters.append(P(p.name, kind, default=default))
        parameters.sort(key=lambda p: p.kind)
        extra = [P("out", P.KEYWORD_ONLY, default=None), P("stream", P.KEYWORD_ONLY, default=None)]
        extra += [
            P(p.name, P.KEYWORD_ONLY, default=self.bound.get(p.name, p.default))
            for p in self.parameters
            if p.kind in ("const", "type")
        ]
        try:
            return inspect.Signature(parameters + extra)
        except ValueError:  # a name of the kernel that Python reserves
            return inspect.Signature([P("args", P.VAR_POSITIONAL), P("named", P.VAR_KEYWORD)])

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    def __repr__(self) -> str:
        bound = "".join(f", {n}={v}" for n, v in self.bound.items())
        return f"<tile.Kernel {self}{bound}>"

    def _repr_html_(self) -> str:
        from ._html import kernel_html

        return kernel_html(self)

    def _repr_markdown_(self) -> str:
        bound = ", ".join(f"`{n} = {v}`" for n, v in self.bound.items())
        return f"**{self.name}**{' with ' + bound if bound else ''}\n```c\n{self.source.rstrip()}\n```"

    # --- binding -----------------------------------------------------------------------------------------

    def bind(self, **values: Any) -> "Kernel":
        """A kernel with these consts, types, dimensions or hints fixed. Values are numbers, bools, names of
        types such as "f16", or types of NumPy and PyTorch. Nothing is compiled."""
        key = (*values, *map(_told, values.values()), *map(type, values.values()))
        try:
            kernel = self._specialized.get(key)
        except TypeError:
            raise self._not_bound(values) from None
        if kernel is None:
            ordered = tuple(sorted(((n, type(v), _told(v)) for n, v in values.items()), key=lambda t: t[0]))
            with _lock:
                kernel = self._specialized.get(ordered)
                if kernel is None:
                    kernel = _make_kernel(self.module, self.name, self.parameters, {**self.bound, **values})
                    self._specialized[ordered] = kernel
                self._specialized[key] = kernel
        return kernel

    def _not_bound(self, values: Mapping[str, Any]) -> ArgumentError:
        """The error of values of which one cannot be bound, such as an array."""
        names = [p.name for p in (*self._given, *self._outs)]
        for name, value in values.items():
            if type(value).__hash__ is None and name not in names:
                return ArgumentError(
                    f"{self.name} has no tensor named {name}; it has {', '.join(names)}",
                    "TILE_ERROR_INVALID_ARGUMENT",
                )
        return ArgumentError(
            f"{self.name}: numbers, bools and types are bound, not arrays", "TILE_ERROR_INVALID_ARGUMENT"
        )

    def _handle(self, ctx: Context, types: tuple) -> "_Handle":
        types = tuple(
            self._type_defaults.get(n) if t is None else _arrays.dtype_name(t) or t
            for n, t in zip(self._types, types)
        )
        key = (ctx, types)
        found = self._handles.get(key)
        if found is None:
            with _lock:
                found = self._handles.get(key)
                if found is None:
                    found = self._handles[key] = _Handle(self, ctx, types)
        return found

    # --- arguments ---------------------------------------------------------------------------------------

    def _match(self, args: tuple, named: Mapping[str, Any], out: Any) -> tuple[dict, dict]:
        """The arguments by name, and the rest of the keywords: what is bound."""
        if len(args) > len(self._given):
            raise ArgumentError(
                f"{self.name} takes {len(self._given)} argument{'s' * (len(self._given) != 1)} by position, "
                f"found {len(args)}: {', '.join(p.name for p in self._given)}; consts go by name",
                "TILE_ERROR_INVALID_ARGUMENT",
            )
        values = {p.name: a for p, a in zip(self._given, args)}
        bound = {}
        for name, value in named.items():
            if name not in self._names:
                bound[name] = value
            elif name in values:
                raise ArgumentError(f"{self.name}: {name} is given twice", "TILE_ERROR_INVALID_ARGUMENT")
            else:
                values[name] = value
        if out is not None:
            outs = out if isinstance(out, (tuple, list)) else (out,)
            if len(outs) != len(self._outs):
                raise ArgumentError(
                    f"{self.name} has {len(self._outs)} outputs, found {len(outs)} in out=",
                    "TILE_ERROR_INVALID_ARGUMENT",
                )
            values.update((p.name, o) for p, o in zip(self._outs, outs))
        return values, bound

    def _prepare(self, values: dict) -> "_Call":
        return _Call(self, values)

    def _slow_call(self, args: tuple, out: Any, stream: Any, named: Mapping[str, Any]) -> Any:
        values, bound = self._match(args, named, out)
        if bound:
            return self.bind(**bound)._slow_call((), None, stream, values)
        with _arrays.allocating_on(stream, values.values()):
            call = _Call(self, values)
            call.launch(stream)
        return call.result()

    def __call__(self, *args: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        n = len(self._given)
        return _slow(self, args[:n] + self._defaults[len(args) :], args[n:], out, stream, named)

    def _question(self, args: tuple, named: Mapping[str, Any], out: Any) -> "_Call":
        values, bound = self._match(args, named, out)
        return _Call(self.bind(**bound) if bound else self, values)

    def explain(self, *args: Any, out: Any = None, **named: Any) -> Variant:
        """The variant that a call with these arguments takes, compiled if need be. Launches nothing."""
        call = self._question(args, named, out)
        ctx, info = call.handle.context, _lib.VariantInfo(struct_size=ctypes.sizeof(_lib.VariantInfo))
        ctx._check(ctx._lib.tile_kernel_variant(call.handle.pointer, call.arguments, call.n, info))
        return Variant(
            _text(info.specialization),
            info.threads,
            info.registers,
            info.spill_bytes,
            info.stack_bytes,
            info.shared_bytes,
            info.programs,
            bool(info.from_cache),
            info.compile_ms,
            ctx.target,
            ctx.name,
        )

    def tune(
        self,
        *args: Any,
        out: Any = None,
        stream: Any = None,
        budget: float = 60,
        write: str | os.PathLike | None = None,
        note: str = "",
        **named: Any,
    ) -> list[TuneResult]:
        """Measures the configurations of the kernel's `tune` block with these arguments, for at most
        `budget` seconds: those timed come first, the fastest in front. `out` and `inout` arrays hold
        afterwards what they held before. write: a tuning table that receives the best one; this kernel
        does not change. Raises tile.ArgumentError if the kernel has no `tune` block."""
        call = self._question(args, named, out)
        ctx, lib = call.handle.context, call.handle.context._lib
        desc = _lib.TuneDesc(struct_size=ctypes.sizeof(_lib.TuneDesc), budget_seconds=budget)
        launch = _lib.LaunchDesc(ctypes.sizeof(_lib.LaunchDesc), _arrays.stream_of(stream, call.like))
        tuning = ctypes.c_void_p()
        ctx._check(lib.tile_kernel_tune(call.handle.pointer, call.arguments, call.n, launch, desc, tuning))
        states = ("timed", "failed", "wrong", "same", "untried")
        try:
            results, entry = [], _lib.TuneEntry(struct_size=ctypes.sizeof(_lib.TuneEntry))
            for i in range(lib.tile_tune_count(tuning)):
                ctx._check(lib.tile_tune_result(tuning, i, entry))
                results.append(
                    TuneResult(
                        _text(entry.config),
                        entry.ms,
                        states[entry.state],
                        bool(entry.is_default),
                        entry.registers,
                        _text(entry.reason),
                    )
                )
            if write is not None:
                ctx._check(lib.tile_tune_write(tuning, os.fsencode(write), note.encode()))
            return results
        finally:
            lib.tile_tune_destroy(tuning)

    def prepare(
        self,
        *,
        context: Context | None = None,
        threads: int = 0,
        types: Mapping[str, Any] | None = None,
        **extents: int | range | Sequence[int],
    ) -> int:
        """Compiles every variant that launches of these extents take: `k.prepare(M=range(1, 65), N=1000)`.
        A value is an extent or a range with a positive step. types: values of const types, `{"T": "f32"}`.
        Tensors are taken as row-major and aligned, scalars as their defaults or 1. Returns the number of
        variants."""
        ctx = context or self.module._first
        given = dict(types or {})
        handle = self._handle(ctx, tuple(given[t] if t in given else None for t in self._types))
        ranges = (_lib.DimRange * max(len(extents), 1))()
        for r, (name, extent) in zip(ranges, extents.items()):
            e = range(extent, extent + 1) if isinstance(extent, int) else extent
            if not isinstance(e, range) or not len(e) or e.step < 1:
                raise ArgumentError(f"{name}: an extent or a range with a positive step was expected")
            r.name, r.first, r.last, r.step = name.encode(), e[0], e[-1], e.step
        desc = _lib.PrepareDesc(
            struct_size=ctypes.sizeof(_lib.PrepareDesc), dims=ranges, n_dims=len(extents), threads=threads
        )
        n = ctypes.c_size_t()
        with ctx._preparing:  # its threads speak for one call at a time
            status = ctx._lib.tile_kernel_prepare(handle.pointer, desc, n)
            said, ctx._elsewhere = ctx._elsewhere, []
        ctx._check(status, said)
        return n.value

    def write_choices(self, path: str | os.PathLike, note: str = "") -> None:
        """Puts the configurations that launches on GPUs have taken without a table into a tuning table, where
        they speak for the same launches only (docs/embedding.md)."""
        for handle in list(self._handles.values()):
            ctx = handle.context
            ctx._check(ctx._lib.tile_kernel_write_choices(handle.pointer, os.fsencode(path), note.encode()))

    def torch_op(self, name: str, **values: Any) -> Any:
        """Registers the kernel as an operator of torch.library and returns it. name: "namespace::operator".
        values: consts to fix, as in bind. See docs/python.md."""
        from . import _torch

        return _torch.register(self.bind(**values) if values else self, name)


class _Handle:
    """A tile_kernel: one context, with types and consts bound."""

    def __init__(self, kernel: Kernel, ctx: Context, types: tuple):
        self.context, self.pointer = ctx, ctypes.c_void_p()
        values = dict(kernel.bound)
        values.update((n, t) for n, t in zip(kernel._types, types) if t is not None)
        bindings, self._keep = (_lib.Binding * max(len(values), 1))(), []
        for b, (name, value) in zip(bindings, values.items()):
            b.name = name.encode()
            _set_binding(b, value, name)
        module = kernel.module._module(ctx)
        ctx._check(
            ctx._lib.tile_kernel_create(module, kernel.name.encode(), bindings, len(values), self.pointer)
        )
        given = dict(zip(kernel._types, types))
        defaults = {p.name: p.default for p in kernel.parameters if p.kind == "type"}
        names = {
            **defaults,
            **{n: t for n, t in given.items() if t},
            **{n: _arrays.dtype_name(v) for n, v in kernel.bound.items() if n in defaults},
        }
        self.dtypes = [names.get(p.dtype, p.dtype) for p in kernel._launched]

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self.context._lib.tile_kernel_destroy(self.pointer)


def _set_binding(b: Any, value: Any, name: str) -> None:
    if isinstance(value, bool):
        b.kind, b.value.i = _lib.BIND_BOOL, value
    elif isinstance(value, str):
        b.kind, b.value.text = _lib.BIND_TEXT, value.encode()
    elif isinstance(value, float):
        b.kind, b.value.f = _lib.BIND_FLOAT, value
    elif hasattr(value, "__index__"):
        b.kind, b.value.i = _lib.BIND_INT, value.__index__()
    else:
        dtype = _arrays.dtype_name(value)
        if dtype is None:
            raise ArgumentError(
                f"{name}: a number, a bool or a type was expected, found {_arrays.described(value)}", "TILE_ERROR_DTYPE"
            )
        b.kind, b.value.dtype = _lib.BIND_DTYPE, _lib.DTYPE[dtype]
