"""One call the long way: arguments are checked, outputs allocated, and the kernel is launched."""

from __future__ import annotations

import ctypes

from . import _arrays, _lib
from ._context import _text
from ._errors import TYPE_CHECKING, ArgumentError
from ._fast import _remember

if TYPE_CHECKING:
    from typing import Any

    from ._kernel import Kernel
    from ._module import Parameter


class _Call:
    """The arguments of one launch as libtile takes them. Everything that it points to lives as long as it
    does."""

    def __init__(self, kernel: Kernel, values: dict):
        self.kernel, self.values = kernel, dict(values)
        views = self.views = {}
        for p in kernel._launched:
            value = self.values.get(p.name)
            if p.kind != "scalar" and value is not None:
                views[p.name] = _arrays.view(value, p.name)
            elif value is None and not (p.optional or p.has_default or p.kind == "out"):
                raise ArgumentError(f"{kernel.name}: {p.name} is missing: {p}", "TILE_ERROR_INVALID_ARGUMENT")
        self.like = next(iter(views.values()), None)
        device = self.like.device if self.like else (kernel.module._fixed or kernel.module._first)._device
        for name, v in views.items():
            if v.device != device:
                raise ArgumentError(
                    f"{name} lies on another device than {next(iter(views))}", "TILE_ERROR_DEVICE"
                )
        ctx = kernel.module._context_of(device)
        if ctx._device != device:
            raise ArgumentError(
                f"{kernel.name}: the arrays lie on DLPack device {device}, the context's device is {ctx._device}",
                "TILE_ERROR_DEVICE",
            )
        types = tuple(
            next((views[p.name].dtype for p in kernel._launched if p.dtype == t and p.name in views), None)
            for t in kernel._types
        )
        self.handle = kernel._handle(ctx, types)
        self.n = len(kernel._launched)
        self._fill()
        self._allocate()

    def _fill(self) -> None:
        rank = sum(len(p.dims) for p in self.kernel._launched)
        self.arguments = (_lib.Arg * max(self.n, 1))()
        self.tensors = (_lib.Tensor * max(self.n, 1))()
        self.numbers = (ctypes.c_int64 * max(2 * rank, 1))()
        at = 0
        for i, p in enumerate(self.kernel._launched):
            if p.kind == "scalar":
                self._scalar(i, p)
            elif p.name in self.views:
                self._tensor(i, self.views[p.name], at)
            at += 2 * len(p.dims)

    def _scalar(self, i: int, p: Parameter) -> None:
        value = self.values.get(p.name)
        value = p.default if value is None else value
        a = self.arguments[i]
        try:
            if hasattr(value, "__index__"):
                n, dtype = value.__index__(), self.handle.dtypes[i]
                if not 0 <= n + (0 if dtype == "u64" else 1 << 63) < 1 << 64:
                    kind = "u64" if dtype == "u64" else "64 bits"
                    raise ArgumentError(f"{p.name}: {n} does not fit {kind}", "TILE_ERROR_DTYPE")
                a.kind, a.value.i = _lib.ARG_INT, n - (1 << 64) if n >= 1 << 63 else n
            else:
                a.kind, a.value.f = _lib.ARG_FLOAT, float(value)
        except (TypeError, ValueError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                f"{p.name}: a number was expected, found {_arrays.described(value)}", "TILE_ERROR_DTYPE"
            ) from None

    def _tensor(self, i: int, v: _arrays.View, at: int) -> None:
        p = self.kernel._launched[i]
        if len(v.shape) != len(p.dims):
            raise ArgumentError(
                f"{self.kernel.name}: {p} has {len(p.dims)} axes, found {len(v.shape)}: {v.shape}",
                "TILE_ERROR_SHAPE",
            )
        if p.kind != "in" and not v.writable:
            raise ArgumentError(f"{self.kernel.name}: {p.name} is written to, but the array is read-only")
        size, base, rank = 8, ctypes.addressof(self.numbers), len(v.shape)
        self.numbers[at : at + rank] = v.shape
        self.numbers[at + rank : at + 2 * rank] = v.strides
        t = self.tensors[i]
        t.data, t.rank, t.dtype = v.pointer, rank, _lib.DTYPE[v.dtype]
        t.shape, t.strides = base + size * at, base + size * (at + rank)
        self.arguments[i].kind = _lib.ARG_TENSOR
        self.arguments[i].value.pointer = ctypes.addressof(t)

    def _extents(self) -> list:
        """The extents of the outputs that are to be allocated, from the library the first time."""
        kernel, ctx = self.kernel, self.handle.context
        wanted = tuple(p.name for p in kernel._outs if p.name not in self.views)
        key = (
            id(self.handle),
            wanted,
            tuple((n, v.shape) for n, v in self.views.items()),
            tuple(
                self.values.get(p.name)
                for p in kernel._given
                if p.kind == "scalar" and p.name in kernel._derived
            ),
        )
        found = kernel._shapes.get(key)
        if found is None:
            found = []
            for i, p in enumerate(kernel._launched):
                if p.name in wanted:
                    extents = (ctypes.c_int64 * 8)()
                    ctx._check(
                        ctx._lib.tile_kernel_extents(self.handle.pointer, self.arguments, self.n, i, extents)
                    )
                    found.append((i, p.name, tuple(extents[: len(p.dims)])))
            if len(kernel._shapes) >= 4096:
                kernel._shapes.clear()
            kernel._shapes[key] = found
        return found

    def _allocate(self) -> None:
        if all(p.name in self.views for p in self.kernel._outs):
            return
        if self.like is None:
            raise ArgumentError(f"{self.kernel.name}: there is no array to allocate outputs like: give out=")
        starts, at = [], 0
        for p in self.kernel._launched:
            starts.append(at)
            at += 2 * len(p.dims)
        for i, name, shape in self._extents():
            array = _arrays.allocate(shape, self.handle.dtypes[i], self.like, name)
            self.values[name] = array
            self.views[name] = _arrays.view(array, name)
            self._tensor(i, self.views[name], starts[i])

    def launch(self, stream: Any) -> None:
        ctx, lib = self.handle.context, self.handle.context._lib
        desc = _lib.LaunchDesc(ctypes.sizeof(_lib.LaunchDesc), _arrays.stream_of(stream, self.like))
        workspace = None
        status = lib.tile_launch(
            self.handle.pointer, self.arguments, ctypes.c_size_t(self.n), ctypes.byref(desc)
        )
        if status and _text(lib.tile_status_name(status)) == "TILE_ERROR_WORKSPACE":
            workspace = self._workspace(desc)
            status = lib.tile_launch(
                self.handle.pointer, self.arguments, ctypes.c_size_t(self.n), ctypes.byref(desc)
            )
        ctx._check(status)
        facts = tuple((n, v.dtype, v.shape) for n, v in self.views.items())
        self.kernel._seen.append((facts, self.handle, self.arguments, self.n, (self.tensors, self.numbers)))
        if workspace is None:
            _remember(self, stream)

    def _workspace(self, desc: Any) -> Any:
        """Memory of the arrays' library. PyTorch's allocator keeps it for the stream until the launch is
        done."""
        ctx, n = self.handle.context, ctypes.c_size_t()
        ctx._check(ctx._lib.tile_kernel_workspace(self.handle.pointer, self.arguments, self.n, n))
        if self.like is None or self.like.device == _arrays.CPU:
            memory = ctypes.create_string_buffer(n.value + 256)
            pointer = ctypes.addressof(memory)
        else:
            memory = _arrays.allocate((n.value + 256,), "u8", self.like, "the workspace")
            pointer = _arrays.view(memory, "the workspace").pointer
        desc.workspace = pointer + -pointer % 256
        desc.workspace_size = n.value
        return memory

    def result(self) -> Any:
        outs = [self.values[p.name] for p in self.kernel._outs]
        return tuple(outs) if len(outs) > 1 else outs[0] if outs else None
