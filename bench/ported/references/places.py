"""Values that meet at places of an array, in NumPy and in PyTorch."""

import numpy as np


def add_at(xp, x, at, v):
    if hasattr(x, "index_add_"):
        return x.clone().index_add_(0, at.long(), v.to(x.dtype))
    x = x + 0
    np.add.at(x, at, v)
    return x


def max_at(xp, x, at, v):
    if hasattr(x, "index_add_"):
        return x.clone().scatter_reduce_(0, at.long(), v.to(x.dtype), "amax")
    x = x + 0
    np.maximum.at(x, at, v)
    return x


def min_at(xp, x, at, v):
    if hasattr(x, "index_add_"):
        return x.clone().scatter_reduce_(0, at.long(), v.to(x.dtype), "amin")
    x = x + 0
    np.minimum.at(x, at, v)
    return x
