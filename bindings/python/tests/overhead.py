"""How long a call takes that computes next to nothing, and how long the import takes. Prints the least of
many repetitions: the machine may be busy."""

import ctypes
import importlib.util
import subprocess
import sys
import timeit

import numpy as np

import tile

SOURCE = """
kernel one(in f32 X[N], out f32 Y[N], const int C = 1) grid (N) { store(Y[program_id() +: 1], load(X[program_id() +: 1])); }
"""


def least(call, number=500, repeat=1500):
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e6


def by_hand(k, x, y):
    """What a careful caller writes with ctypes: structs made once, addresses by array.ctypes."""
    from tile import _lib

    lib = _lib.library()
    handle = next(iter(k._handles.values())).pointer
    n = ctypes.c_int64(1)
    tensors = [_lib.Tensor(0, ctypes.addressof(n), None, -1, 0) for _ in range(2)]
    args = (_lib.Arg * 2)()
    for a, t in zip(args, tensors):
        a.kind, a.value.pointer = _lib.ARG_TENSOR, ctypes.addressof(t)

    def call():
        tensors[0].data = x.ctypes.data
        tensors[1].data = y.ctypes.data
        if lib.tile_launch(handle, args, 2, None):
            raise RuntimeError

    call.keep = n
    return call


def main():
    k = tile.loads(SOURCE, context=tile.Context("cpu", threads=1))["one"]
    x, y = np.ones(1, np.float32), np.empty(1, np.float32)
    k(x)
    timer = "import time; t = time.process_time(); import tile; print(time.process_time() - t)"
    runs = [
        float(
            subprocess.run([sys.executable, "-c", timer], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(15)
    ]
    print(f"import tile               {min(runs) * 1e3:6.1f} ms")
    print(f"k(x, out=y)               {least(lambda: k(x, out=y)):6.2f} us")
    print(f"k(x)                      {least(lambda: k(x)):6.2f} us")
    print(f"k(x, out=y, C=1)          {least(lambda: k(x, out=y, C=1)):6.2f} us")
    print(f"ctypes by hand            {least(by_hand(k, x, y)):6.2f} us")
    if importlib.util.find_spec("torch"):
        import torch

        t = torch.ones(1)
        k(t)
        print(f"k(t), PyTorch             {least(lambda: k(t)):6.2f} us")
    print(f"empty call of a lambda    {least(lambda: None):6.2f} us")


if __name__ == "__main__":
    main()
