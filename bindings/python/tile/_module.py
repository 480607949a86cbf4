"""Modules: the kernels of one source, and their parameters."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from . import _lib
from ._context import _TARGETS, Context, _lock, _text, context, first_context
from ._errors import TYPE_CHECKING, Record
from ._fast import _make_kernel

if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, NoReturn, Sequence

    from ._kernel import Kernel

_KINDS = ("in", "out", "inout", "scalar", "const", "type")


class Parameter(Record):
    """A parameter of a kernel as its source declares it.

    kind: "in", "out", "inout", "scalar", "const" or "type". dtype: as written, such as "f32" or "T".
    dims: the extents of a tensor as written, such as ("M", "cdiv(N, 128)").
    """

    name: str
    kind: str
    dtype: str
    dims: tuple
    optional: bool
    has_default: bool
    default: Any

    def __str__(self) -> str:
        default = f" = {self.default}" if self.has_default and self.default is not None else ""
        if self.kind == "type":
            return f"const type {self.name}{default}"
        if self.kind in ("const", "scalar"):
            return f"{'const ' * (self.kind == 'const')}{self.dtype} {self.name}{default}"
        dims = f"[{', '.join(self.dims)}]" if self.dims else ""
        return f"{self.kind} {self.dtype} {self.name}{dims}{'?' * self.optional}"


class Module(Mapping):  # of names and kernels
    """The kernels of one `.tile` source, by name: `module["softmax"]`. Made by tile.load and tile.loads.

    name: the file's name, or what the caller called the text. source: the text.
    """

    def __init__(
        self,
        name: str,
        source: str,
        path: str | None,
        ctx: Context | None,
        imports: Sequence[str],
        tune: str | None,
    ):
        self.name, self.source = name, source
        self._path, self._imports, self._tune = path, tuple(imports), tune
        self._fixed = ctx
        self._loaded: dict[Context, ctypes.c_void_p] = {}
        first = ctx or first_context()
        lib, module = first._lib, self._module(first)
        count = lib.tile_module_kernel_count(module)
        self._kernels: dict[str, Kernel | None] = {
            _text(lib.tile_module_kernel_name(module, i)): None for i in range(count)
        }
        self._first = first

    def __del__(self) -> None:
        for ctx, module in getattr(self, "_loaded", {}).items():
            ctx._lib.tile_module_destroy(module)

    def _context_of(self, device: tuple) -> Context:
        return self._fixed or context(_TARGETS.get(device[0], "cuda"), device[1])

    def _module(self, ctx: Context) -> ctypes.c_void_p:
        with _lock:
            if ctx in self._loaded:
                return self._loaded[ctx]
            module = ctypes.c_void_p()
            n = len(self._imports)
            folders = (ctypes.c_char_p * max(n, 1))(*(os.fsencode(f) for f in self._imports))
            desc = _lib.ModuleDesc(
                ctypes.sizeof(_lib.ModuleDesc),
                folders,
                n,
                None if self._tune is None else os.fsencode(self._tune),
            )
            if self._path is not None:
                status = ctx._lib.tile_module_load_file(ctx._pointer, os.fsencode(self._path), desc, module)
            else:
                text = self.source.encode()
                status = ctx._lib.tile_module_load_memory(
                    ctx._pointer, self.name.encode(), text, len(text), desc, module
                )
            ctx._check(status)
            self._loaded[ctx] = module
            return module

    def __getitem__(self, name: str) -> "Kernel":
        with _lock:
            if name not in self._kernels:
                raise KeyError(f"no kernel {name!r}; the module has {', '.join(self._kernels) or 'none'}")
            kernel = self._kernels[name]
            if kernel is None:
                kernel = self._kernels[name] = _make_kernel(self, name, _parameters(self, name), {})
            return kernel

    def __getattr__(self, name: str) -> NoReturn:
        # Only for names that the object lacks. `_kernels` is missing where the constructor has failed.
        hint = f"; a kernel is an item: module[{name!r}]" if name in self.__dict__.get("_kernels", ()) else ""
        raise AttributeError(f"a module has no attribute {name!r}{hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tile.Module {self.name}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        from ._html import module_html  # not at import, as few programs need it

        return module_html(self)

    def _repr_markdown_(self) -> str:
        return f"**{self.name}**\n```c\n{self.source.rstrip()}\n```"


def load(
    path: str | os.PathLike,
    *,
    context: Context | None = None,
    import_directories: Iterable[str | os.PathLike] = (),
    tune: str | os.PathLike | None = None,
) -> Module:
    """Reads and checks a `.tile` file and what it imports.

    context: compile for this context only; without one, the arrays of a call decide on the device.
    import_directories: searched after the file's own folder. tune: a tuning table; without one, the file
    beside the source with the ending `.tune`, if there is one; "" for none.
    Raises tile.CompileError with all messages if the source has errors, OSError if the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        source = file.read()
    return Module(
        os.path.basename(os.fspath(path)),
        source,
        os.fspath(path),
        context,
        [os.fspath(d) for d in import_directories],
        None if tune is None else os.fspath(tune),
    )


def loads(
    source: str,
    *,
    name: str = "<string>",
    context: Context | None = None,
    import_directories: Iterable[str | os.PathLike] = (),
) -> Module:
    """The same for a text. `name` stands in messages, and its folder part is where imports are looked up."""
    return Module(name, source, None, context, [os.fspath(d) for d in import_directories], None)


def _parameters(module: Module, name: str) -> list[Parameter]:
    lib, found = module._first._lib, []
    info = _lib.ParamInfo(struct_size=ctypes.sizeof(_lib.ParamInfo))
    pointer = module._module(module._first)
    while not lib.tile_module_param(pointer, name.encode(), len(found), info):
        kind = _KINDS[info.kind]
        default: Any = None
        if info.has_default and kind == "type":
            default = _lib.DTYPES[info.dtype]
        elif info.has_default:
            dtype = _lib.DTYPES[info.dtype]
            value = info.default_value
            default = value.f if dtype in _lib.FLOATS else bool(value.i) if dtype == "bool" else value.i
        found.append(
            Parameter(
                _text(info.name),
                kind,
                _text(info.type_name),
                tuple(_text(info.dims[a]) for a in range(info.rank)),
                bool(info.optional),
                bool(info.has_default),
                default,
            )
        )
    return found
