"""libtile through ctypes: kernels as a user launches them, in PyTorch's stream."""

import ctypes as C, time
import torch


class ContextDesc(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("target", C.c_char_p),
        ("device", C.c_int),
        ("flags", C.c_uint32),
        ("realloc", C.c_void_p),
        ("alloc_user", C.c_void_p),
        ("on_diagnostic", C.c_void_p),
        ("on_diagnostic_user", C.c_void_p),
        ("cache_directory", C.c_char_p),
        ("cache_limit", C.c_uint64),
        ("opt_level", C.c_int),
        ("threads", C.c_int),
        ("native_context", C.c_void_p),
        ("driver_library", C.c_char_p),
        ("compiler_library", C.c_char_p),
        ("debug", C.c_char_p),
    ]


class ModuleDesc(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("import_dirs", C.c_void_p),
        ("n_import_dirs", C.c_size_t),
        ("tune_file", C.c_char_p),
    ]


class Value(C.Union):
    _fields_ = [("i", C.c_int64), ("f", C.c_double), ("p", C.c_void_p), ("text", C.c_char_p)]


class Binding(C.Structure):
    _fields_ = [("name", C.c_char_p), ("kind", C.c_int), ("value", Value)]


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("rank", C.c_int32),
        ("dtype", C.c_int),
    ]


class Arg(C.Structure):
    _fields_ = [("kind", C.c_int), ("value", Value)]


class LaunchDesc(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("stream", C.c_void_p),
        ("workspace", C.c_void_p),
        ("workspace_size", C.c_size_t),
    ]


class VariantInfo(C.Structure):
    _fields_ = [
        ("struct_size", C.c_size_t),
        ("specialization", C.c_char * 512),
        ("threads", C.c_int),
        ("registers", C.c_int),
        ("spill_bytes", C.c_int),
        ("stack_bytes", C.c_int),
        ("shared_bytes", C.c_uint64),
        ("programs", C.c_int64),
        ("from_cache", C.c_int),
        ("compile_ms", C.c_double),
    ]


AS_DECLARED, NO_CACHE, NONE, INT, FLOAT, TEXT, TENSOR = 16, 2, 0, 3, 4, 4, 2


class Library:
    def __init__(self, path, kernels, table=False, flags=0, target=b"cuda"):
        self.lib, self.kernels, self.table, self.modules = C.CDLL(path), kernels, table, {}
        self.context, d = C.c_void_p(), ContextDesc(
            C.sizeof(ContextDesc), target, torch.cuda.current_device() if target == b"cuda" else 0, flags
        )
        self.stream = (lambda: torch.cuda.current_stream().cuda_stream) if target == b"cuda" else lambda: None
        said = C.create_string_buffer(2000)
        if self.lib.tile_context_create_error(C.byref(d), C.byref(self.context), said, 2000):
            raise RuntimeError(said.value.decode())

    def check(self, status, what):
        if not status:
            return
        text = C.create_string_buffer(2000)
        self.lib.tile_context_error.restype = C.c_size_t
        self.lib.tile_context_error(self.context, text, 2000)
        raise RuntimeError(f"{what}: {text.value.decode()[:600]}")

    def kernel(self, file, name, **bind):
        if file not in self.modules:
            m, path = C.c_void_p(), f"{self.kernels}/{file}.tile".encode()
            d = ModuleDesc(C.sizeof(ModuleDesc), None, 0, None if self.table else b"")
            self.check(self.lib.tile_module_load_file(self.context, path, C.byref(d), C.byref(m)), file)
            self.modules[file] = m
        b = (Binding * max(1, len(bind)))(
            *[Binding(k.encode(), TEXT, Value(text=str(v).encode())) for k, v in bind.items()]
        )
        k = C.c_void_p()
        self.check(
            self.lib.tile_kernel_create(
                self.modules[file], name.encode(), b, C.c_size_t(len(bind)), C.byref(k)
            ),
            name,
        )
        return Kernel(self, k, name, b)


class Kernel:
    def __init__(self, lib, handle, name, keep):
        self.lib, self.handle, self.name, self.keep = lib, handle, name, keep

    def plan(self, *args):
        """A function that launches on these tensors and numbers (None: an optional tensor left out), in
        PyTorch's stream, and what was compiled for them."""
        a, keep = (Arg * len(args))(), []
        for i, x in enumerate(args):
            if isinstance(x, torch.Tensor):
                n = C.c_int64 * x.dim()
                t = Tensor(x.data_ptr(), n(*x.shape), n(*x.stride()), x.dim(), 0)
                keep += [x, t]
                a[i].kind, a[i].value.p = TENSOR, C.addressof(t)
            elif x is None:
                a[i].kind = NONE
            elif isinstance(x, float):
                a[i].kind, a[i].value.f = FLOAT, x
            else:
                a[i].kind, a[i].value.i = INT, x
        info, n, l = VariantInfo(C.sizeof(VariantInfo)), C.c_size_t(len(args)), self.lib.lib
        begin = time.time()
        self.lib.check(l.tile_kernel_variant(self.handle, a, n, C.byref(info)), self.name)
        said = info.specialization.decode().split(";")[0]

        def go(keep=keep):
            d = LaunchDesc(C.sizeof(LaunchDesc), self.lib.stream(), None, 0)
            self.lib.check(l.tile_launch(self.handle, a, n, C.byref(d)), self.name)

        return (
            go,
            f"{said}; {info.registers} registers, {info.spill_bytes} spilled, {info.shared_bytes >> 10} KB, "
            f"{info.programs} programs, ready in {(time.time() - begin) * 1e3:.0f} ms",
        )
