"""The C interface of libtile (tile/tile.h) for ctypes: structs, constants, and where the library is found."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)

OK = 0
IN, OUT, INOUT, SCALAR, CONST, TYPE = range(6)
ERROR_WORKSPACE = 15  # TILE_ERROR_WORKSPACE
ARG_NONE, ARG_DLTENSOR, ARG_TENSOR, ARG_INT, ARG_FLOAT = range(5)
BIND_INT, BIND_FLOAT, BIND_BOOL, BIND_DTYPE, BIND_TEXT = range(5)
SEVERITIES = ("error", "warning", "performance", "note", "debug", "print")
DTYPES = (
    "none",
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "bf16",
    "f32",
    "f64",
    "index",
)
DTYPE = {name: number for number, name in enumerate(DTYPES)}
FLOATS = frozenset(("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"))
CHECKED, NO_CACHE, DEBUG_INFO, PRINT, AS_DECLARED, EARLY_START, PINNED = (1 << i for i in range(7))


class Allocator(Structure):
    _fields_ = [("realloc", c_void_p), ("user", c_void_p)]


class Diagnostic(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("severity", c_int),
        ("file", c_char_p),
        ("line", c_int),
        ("column", c_int),
        ("end_line", c_int),
        ("end_column", c_int),
        ("message", c_char_p),
        ("rendered", c_char_p),
        ("kernel", c_char_p),
    ]


DiagnosticFn = CFUNCTYPE(None, c_void_p, POINTER(Diagnostic))


class ContextDesc(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("target", c_char_p),
        ("device", c_int),
        ("flags", c_uint32),
        ("allocator", Allocator),
        ("on_diagnostic", DiagnosticFn),
        ("on_diagnostic_user", c_void_p),
        ("cache_directory", c_char_p),
        ("cache_limit", c_uint64),
        ("opt_level", c_int),
        ("threads", c_int),
        ("native_context", c_void_p),
        ("driver_library", c_char_p),
        ("compiler_library", c_char_p),
        ("debug", c_char_p),
        ("run_threads", c_void_p),
        ("run_threads_user", c_void_p),
        ("workspace_limit", c_int64),
    ]


class DLDevice(Structure):
    _fields_ = [("device_type", c_int), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DeviceInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 128),
        ("target", c_char * 32),
        ("device", DLDevice),
        ("multiprocessors", c_int),
        ("warp_size", c_int),
        ("memory_bytes", c_uint64),
        ("l2_bytes", c_uint64),
        ("shared_bytes", c_uint64),
        ("clock_khz", c_int),
        ("driver_version", c_int),
    ]


class ModuleDesc(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("import_directories", POINTER(c_char_p)),
        ("n_import_directories", c_size_t),
        ("tune_file", c_char_p),
    ]


class _BindingValue(Union):
    _fields_ = [("i", c_int64), ("f", c_double), ("dtype", c_int), ("text", c_char_p)]


class Binding(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("value", _BindingValue)]


class _Scalar(Structure):
    _fields_ = [("i", c_int64), ("f", c_double)]


class ParamInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int),
        ("dtype", c_int),
        ("rank", c_int),
        ("dims", c_char_p * 8),
        ("has_default", c_int),
        ("default_value", _Scalar),
        ("optional", c_int),
        ("type_name", c_char_p),
    ]


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("rank", c_int32),
        ("dtype", c_int),
    ]


class _ArgValue(Union):
    _fields_ = [("pointer", c_void_p), ("i", c_int64), ("f", c_double)]


class Arg(Structure):
    _fields_ = [("kind", c_int), ("value", _ArgValue)]


class LaunchDesc(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("stream", c_void_p),
        ("workspace", c_void_p),
        ("workspace_size", c_size_t),
    ]


class VariantInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("specialization", c_char * 512),
        ("threads", c_int),
        ("registers", c_int),
        ("spill_bytes", c_int),
        ("stack_bytes", c_int),
        ("shared_bytes", c_uint64),
        ("programs", c_int64),
        ("from_cache", c_int),
        ("compile_ms", c_double),
    ]


class DimRange(Structure):
    _fields_ = [("name", c_char_p), ("first", c_int64), ("last", c_int64), ("step", c_int64)]


class PrepareDesc(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dims", POINTER(DimRange)),
        ("n_dims", c_size_t),
        ("args", c_void_p),
        ("n_args", c_size_t),
        ("threads", c_int),
    ]


class TuneDesc(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("budget_seconds", c_double),
        ("repeat", c_int),
        ("threads", c_int),
        ("flags", c_uint32),
        ("tolerance", c_double),
        ("on_progress", c_void_p),
        ("on_progress_user", c_void_p),
    ]


class TuneEntry(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("config", c_char_p),
        ("is_default", c_int),
        ("state", c_int),
        ("ms", c_double),
        ("launches", c_int),
        ("deviation", c_double),
        ("registers", c_int),
        ("spill_bytes", c_int),
        ("shared_bytes", c_uint64),
        ("reason", c_char_p),
    ]


_P = c_void_p
_FUNCTIONS = {
    "tile_version": (c_int, []),
    "tile_status_name": (c_char_p, [c_int]),
    "tile_language_words": (c_char_p, [c_int]),
    "tile_context_create_error": (c_int, [POINTER(ContextDesc), POINTER(_P), c_char_p, c_size_t]),
    "tile_context_destroy": (None, [_P]),
    "tile_context_error": (c_size_t, [_P, c_char_p, c_size_t]),
    "tile_context_device": (c_int, [_P, POINTER(DeviceInfo)]),
    "tile_context_synchronize": (c_int, [_P]),
    "tile_context_seal": (c_int, [_P, c_int]),
    "tile_context_missing": (c_size_t, [_P, c_char_p, c_size_t]),
    "tile_module_load_file": (c_int, [_P, c_char_p, POINTER(ModuleDesc), POINTER(_P)]),
    "tile_module_load_memory": (c_int, [_P, c_char_p, c_char_p, c_size_t, POINTER(ModuleDesc), POINTER(_P)]),
    "tile_module_load_tune": (c_int, [_P, c_char_p]),
    "tile_module_destroy": (None, [_P]),
    "tile_module_kernel_count": (c_size_t, [_P]),
    "tile_module_kernel_name": (c_char_p, [_P, c_size_t]),
    "tile_module_param": (c_int, [_P, c_char_p, c_size_t, POINTER(ParamInfo)]),
    "tile_kernel_create": (c_int, [_P, c_char_p, POINTER(Binding), c_size_t, POINTER(_P)]),
    "tile_kernel_destroy": (None, [_P]),
    "tile_kernel_extents": (c_int, [_P, _P, c_size_t, c_size_t, POINTER(c_int64)]),
    "tile_kernel_workspace": (c_int, [_P, _P, c_size_t, POINTER(c_size_t)]),
    "tile_kernel_variant": (c_int, [_P, _P, c_size_t, POINTER(VariantInfo)]),
    "tile_kernel_prepare": (c_int, [_P, POINTER(PrepareDesc), POINTER(c_size_t)]),
    "tile_kernel_write_choices": (c_int, [_P, c_char_p, c_char_p]),
    "tile_kernel_tune": (c_int, [_P, _P, c_size_t, POINTER(LaunchDesc), POINTER(TuneDesc), POINTER(_P)]),
    "tile_tune_count": (c_size_t, [_P]),
    "tile_tune_result": (c_int, [_P, c_size_t, POINTER(TuneEntry)]),
    "tile_tune_write": (c_int, [_P, c_char_p, c_char_p]),
    "tile_tune_destroy": (None, [_P]),
}


def _open() -> ctypes.CDLL:
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtile.so.0")
    tried = []
    for path in filter(
        None, (os.environ.get("TILE_LIBRARY"), here if os.path.exists(here) else None, "libtile.so.0")
    ):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
            if path == os.environ.get("TILE_LIBRARY"):
                break
    raise ImportError(
        "libtile was not found: install the package libtile0, or set TILE_LIBRARY to its file\n  "
        + "\n  ".join(tried)
    )


_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """libtile, opened at the first call."""
    global _library
    if _library is None:
        lib = _open()
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(lib, name, None)
            if function is None:
                raise ImportError(f"{lib._name} is too old for this package: it has no {name}")
            function.restype, function.argtypes = result, arguments
        lib.tile_launch.restype = c_int  # without argtypes: its callers hand over what ctypes takes as it is
        _library = lib
    return _library
