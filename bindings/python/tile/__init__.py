"""Tile kernels from Python: compile `.tile` files, launch them on NumPy arrays and PyTorch tensors.

    import tile
    k = tile.load("softmax.tile")["softmax"]
    y = k(x)

The package is pure Python over libtile (ctypes). docs/python.md of the project describes it.
"""

from ._context import Context, context
from ._errors import ArgumentError, CompileError, Diagnostic, Error, SealedError, Warning
from ._kernel import Kernel, TuneResult, Variant
from ._module import Module, Parameter, load, loads

__version__ = "0.2.0"
__all__ = [
    "ArgumentError",
    "CompileError",
    "Context",
    "Diagnostic",
    "Error",
    "Kernel",
    "Module",
    "Parameter",
    "SealedError",
    "TuneResult",
    "Variant",
    "Warning",
    "context",
    "load",
    "loads",
]
