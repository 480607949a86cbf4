"""Arrays of other libraries as addresses, extents, strides, types and devices.

NumPy and PyTorch are known by name, because the package allocates outputs with them. Everything else comes
through DLPack. Neither library is imported here: an array can only exist if its library is loaded already.
"""

from __future__ import annotations

import ctypes
import sys

from . import _lib
from ._errors import TYPE_CHECKING, ArgumentError, Record

if TYPE_CHECKING:
    from typing import Any

_NAMES = {
    "bool": "bool",
    "bool_": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}
_BY_TILE = {tile: name for name, tile in _NAMES.items() if name != "bool_"}
# DLPack's codes: int, unsigned, float, bfloat, bool, and those of the 8-bit floats.
_BY_CODE = {
    (0, 8): "i8",
    (0, 16): "i16",
    (0, 32): "i32",
    (0, 64): "i64",
    (1, 8): "u8",
    (1, 16): "u16",
    (1, 32): "u32",
    (1, 64): "u64",
    (2, 16): "f16",
    (2, 32): "f32",
    (2, 64): "f64",
    (4, 16): "bf16",
    (6, 8): "bool",
    (10, 8): "f8e4m3",
    (12, 8): "f8e5m2",
}
CPU = (1, 0)
_HOST = {1, 3, 11}


class View(Record):
    """What a launch needs of one array. `strides` count elements. `keep` must live during the call."""

    pointer: int
    shape: tuple
    strides: tuple
    dtype: str
    device: tuple
    family: str
    keep: Any
    writable: bool


def dtype_name(dtype: Any) -> str | None:
    """The name that tilec gives to a type of NumPy or PyTorch, or to its own name; None: it has none."""
    if isinstance(dtype, str) and dtype in _lib.DTYPE:
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return _NAMES.get(name.rpartition(".")[2])


def _numpy_view(a: Any, what: str) -> View:
    dtype = _NAMES.get(a.dtype.name)
    size = a.dtype.itemsize
    if dtype is None or not a.dtype.isnative:
        raise ArgumentError(f"{what}: tilec has no element type for NumPy's {a.dtype!r}", "TILE_ERROR_DTYPE")
    if any(s % size for s in a.strides):
        raise ArgumentError(
            f"{what}: strides of {a.strides} bytes are no multiples of the {size} bytes of an element",
            "TILE_ERROR_SHAPE",
        )
    return View(
        a.ctypes.data, a.shape, tuple(s // size for s in a.strides), dtype, CPU, "numpy", a, a.flags.writeable
    )


def _torch_view(t: Any, what: str) -> View:
    torch = sys.modules["torch"]
    dtype = _NAMES.get(str(t.dtype)[6:])
    if dtype is None or t.layout is not torch.strided:
        raise ArgumentError(
            f"{what}: tilec has no element type for {t.dtype}, {t.layout}", "TILE_ERROR_DTYPE"
        )
    if t.is_neg():
        raise ArgumentError(f"{what}: its negative bit is set, which a kernel does not see: give resolve_neg()")
    if t.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"{what} requires a gradient, which a kernel does not record: detach it, call under "
            "torch.no_grad(), or register a formula for an operator of torch_op()"
        )
    kind = t.device.type
    if kind == "cpu":
        device = CPU
    elif kind == "cuda":
        device = (10 if torch.version.hip else 2, t.device.index)
    else:
        raise ArgumentError(f"{what} is on {t.device}, for which there are no kernels", "TILE_ERROR_DEVICE")
    return View(t.data_ptr(), tuple(t.shape), t.stride(), dtype, device, "torch", t, True)


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _dlpack_view(a: Any, what: str) -> View:
    try:
        capsule = a.__dlpack__()
    except Exception as error:
        raise ArgumentError(f"{what}: {type(a).__name__} gives no DLPack capsule: {error}") from error
    t = _lib.DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    dtype = _BY_CODE.get((t.dtype.code, t.dtype.bits))
    if dtype is None or t.dtype.lanes != 1:
        raise ArgumentError(
            f"{what}: tilec has no element type for DLPack's code {t.dtype.code} of {t.dtype.bits} bits",
            "TILE_ERROR_DTYPE",
        )
    shape = tuple(t.shape[i] for i in range(t.ndim))
    if t.strides:
        strides = tuple(t.strides[i] for i in range(t.ndim))
    else:
        strides = row_major(shape)
    kind = t.device.device_type
    device = CPU if kind in _HOST else (2 if kind == 13 else kind, t.device.device_id)
    return View((t.data or 0) + t.byte_offset, shape, strides, dtype, device, "dlpack", (a, capsule), True)


def row_major(shape: tuple) -> tuple:
    """The strides, in elements, of a row-major array without gaps."""
    strides, n = [], 1
    for extent in reversed(shape):
        strides.append(n)
        n *= max(extent, 1)
    return tuple(reversed(strides))


def described(value: Any) -> str:
    """What a wrong argument is, in an error: arrays by type and shape."""
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"{type(value).__name__} of shape {tuple(shape)}"


def view(a: Any, what: str) -> View:
    """The view of an array; `what` names it in errors."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(a, numpy.ndarray):
        return _numpy_view(a, what)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return _torch_view(a, what)
    if hasattr(a, "__dlpack__"):
        return _dlpack_view(a, what)
    raise ArgumentError(
        f"{what}: an array was expected, found {type(a).__name__} (arrays are NumPy's, PyTorch's or DLPack's)",
        "TILE_ERROR_DTYPE",
    )


def allocate(shape: tuple, dtype: str, like: View, what: str) -> Any:
    """A new array of the same library and device as `like`."""
    name = _BY_TILE[dtype]
    if like.family == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, name), device=like.keep.device)
    if like.family == "numpy":
        numpy = sys.modules["numpy"]
        if like.dtype == dtype:
            return numpy.empty(shape, like.keep.dtype)
        if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            try:
                import ml_dtypes
            except ImportError:
                raise ArgumentError(
                    f"{what} is of {dtype}, which NumPy has with the package ml_dtypes only: "
                    "install it, or give out="
                ) from None
            return numpy.empty(shape, getattr(ml_dtypes, name))
        return numpy.empty(shape, name)
    raise ArgumentError(f"{what} cannot be allocated for {type(like.keep[0]).__name__}: give out=")


def stream_of(stream: Any, like: View | None) -> int:
    """The stream of a launch as an address: the caller's, or PyTorch's current one."""
    if stream is None:
        if like is None or like.family != "torch" or like.device == CPU:
            return 0
        return sys.modules["torch"].cuda.current_stream(like.keep.device).cuda_stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return int(stream)


class _Anywhere:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def allocating_on(stream: Any, arrays: Any) -> Any:
    """PyTorch allocates outputs and workspaces for the stream of the launch, where the caller names one."""
    torch = sys.modules.get("torch")
    if stream is None or torch is None:
        return _Anywhere()
    devices = [a.device for a in arrays if isinstance(a, torch.Tensor) and a.is_cuda]
    if not devices:
        return _Anywhere()
    return torch.cuda.stream(torch.cuda.ExternalStream(stream_of(stream, None), device=devices[0]))


class Memory:
    """Reads NumPy's arrays where they lie: their address and flags, without a call.

    An ndarray begins with fields of NumPy's stable ABI (PyArrayObject): data, nd, dimensions, strides, base,
    descr, flags. `words` is all memory as an array of 64-bit words, of which only these fields are read.
    """

    def __init__(self) -> None:
        import numpy

        self.words = (ctypes.c_uint64 * (1 << 44)).from_address(0)
        self.head = object.__basicsize__ // 8
        self.flags = self.head + 6
        if sys.implementation.name != "cpython" or not self._as_expected(numpy):
            raise OSError("arrays lie in memory in another way")

    def _as_expected(self, numpy: Any) -> bool:
        for array in (numpy.arange(12.0).reshape(3, 4)[1:, 1:], numpy.zeros(5, numpy.int8)):
            for writable in (True, False):
                array.flags.writeable = writable
                at = id(array) >> 3
                if id(array) % 8 or self.words[at + self.head] != array.__array_interface__["data"][0]:
                    return False
                if bool(self.words[at + self.flags] & 0x400) != writable:
                    return False
        return True
