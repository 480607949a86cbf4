"""Values that meet at places of an array, in NumPy and in PyTorch."""

import numpy as np


def add_at(xp, x, at, v):
    if hasattr(x, "index_add_"):
        return x.clone().index_add_(0, at.long(), v.to(x.dtype))
    x = x + 0
    np.add.at(x, at, v)
    return x


def extreme_at(x, at, v, word, ufunc):
    if hasattr(x, "index_add_"):
        return x.clone().scatter_reduce_(0, at.long(), v.to(x.dtype), word)
    x = x + 0
    ufunc.at(x, at, v)
    return x


def max_at(xp, x, at, v):
    return extreme_at(x, at, v, "amax", np.maximum)


def min_at(xp, x, at, v):
    return extreme_at(x, at, v, "amin", np.minimum)
