"""PyTorch under the names of NumPy that the references use, and inputs as its tensors."""

from __future__ import annotations

import functools

import numpy as np
import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class Extreme:
    """numpy.maximum or numpy.minimum."""

    def __init__(self, function, reduction: str):
        self.function, self.reduction = function, reduction

    def __call__(self, a, b):
        return self.function(a, b)

    def at(self, x, index, values):
        x.scatter_reduce_(0, index.long(), values.to(x.dtype), self.reduction)


class TorchNames:
    """`xp` of a reference that runs in PyTorch. Names that both libraries share are PyTorch's own."""

    uint64 = torch.int64  # PyTorch shifts no unsigned words; the references mask what they shift

    maximum = Extreme(torch.maximum, "amax")
    minimum = Extreme(torch.minimum, "amin")

    def __init__(self, device: str):
        self.device = device

    def __getattr__(self, name: str):
        if name == "add":  # the references ask for numpy.add.at
            raise AttributeError(name)
        return getattr(torch, name)

    def arange(self, *args, **named):
        return torch.arange(*args, device=self.device, **named)

    def zeros(self, *args, **named):
        return torch.zeros(*args, device=self.device, **named)

    def eye(self, n: int):
        return torch.eye(n, device=self.device)

    def asarray(self, x, dtype=None):
        return torch.asarray(x, dtype=dtype, device=self.device)

    def einsum(self, formula: str, *factors):
        common = functools.reduce(torch.promote_types, [f.dtype for f in factors])
        return torch.einsum(formula, *[f.to(common) for f in factors])

    def pad(self, x, widths):
        return torch.nn.functional.pad(x, [w for pair in reversed(widths) for w in pair])

    def searchsorted(self, a, v, side="left"):
        common = torch.promote_types(a.dtype, v.dtype)
        return torch.searchsorted(a.to(common).contiguous(), v.to(common), side=side)

    def sort(self, x, axis=-1):
        return torch.sort(x, dim=axis).values

    def flip(self, x, axes):
        return torch.flip(x, dims=axes)

    def take_along_axis(self, x, index, axis):
        return torch.take_along_dim(x, index.long(), dim=axis)


def tensors_of(args: dict, device: str, dtypes: dict | None = None) -> dict:
    """Copies on the device. dtypes: the element types of some of them, by name, as tilec calls them."""

    def tensor(name, a):
        if not isinstance(a, np.ndarray):
            return a
        t = torch.from_numpy(a.copy()).to(device)
        return t.to(TYPES[dtypes[name]]) if dtypes and name in dtypes else t

    return {name: tensor(name, a) for name, a in args.items()}
