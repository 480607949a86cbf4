"""PyTorch under the names of NumPy that the references use, and inputs as its tensors."""

from __future__ import annotations

import numpy as np
import torch

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class TorchNames:
    """`xp` of a reference that runs in PyTorch. Names that both libraries share are PyTorch's own."""

    def __init__(self, device: str):
        self.device = device
        self.float64, self.float32, self.int32, self.int64 = (
            torch.float64,
            torch.float32,
            torch.int32,
            torch.int64,
        )

    def __getattr__(self, name: str):
        if name == "add":  # the references ask for numpy.add.at
            raise AttributeError(name)
        return getattr(torch, name)

    def arange(self, *args, **named):
        return torch.arange(*args, device=self.device, **named)

    def zeros(self, *args, **named):
        return torch.zeros(*args, device=self.device, **named)

    def sort(self, x, axis=-1):
        return torch.sort(x, dim=axis).values

    def flip(self, x, axes):
        return torch.flip(x, dims=axes)

    def take_along_axis(self, x, index, axis):
        return torch.take_along_dim(x, index.long(), dim=axis)


def tensors_of(args: dict, device: str, dtype: str) -> dict:
    """Copies on the device. Floating arrays take the type, where one is asked for and they have 16 bits."""

    def tensor(a):
        if not isinstance(a, np.ndarray):
            return a
        t = torch.from_numpy(a.copy()).to(device)
        return t.to(TYPES[dtype]) if dtype and t.dtype == torch.float16 else t

    return {name: tensor(a) for name, a in args.items()}
