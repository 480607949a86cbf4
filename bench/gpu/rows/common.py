"""What the rows of all families share: types, random tensors, and the tuned Triton kernels as peers."""

import torch
import torch.nn.functional as F
import triton_peers
from harness import beat

dev = "cuda"
DT = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f8e4m3": torch.float8_e4m3fn,
    "i8": torch.int8,
}


def triton(b, what, make, small, *key):
    """The tuned Triton kernel as a peer, after small(make) said that its results are right: [] where there is
    none. make(config, ...) gives a launch."""
    c = triton_peers.tuned(*key)
    if not c:
        return []
    beat("triton " + what, 120)
    try:
        good = small(lambda *a: make(c, *a))
    except Exception as x:
        good = print("triton", what, str(x)[:200])
    return [("triton", lambda *a: make(c, *a))] if good else []


def randn(*s, dt=torch.float16):
    return torch.randn(*s, device=dev, dtype=dt)


def split_results(B, H, S, D):
    """Room for what the programs of S parts of the keys leave: maxima and sums [B, H, S], and outputs."""
    return (
        torch.empty(B, H, S, device=dev),
        torch.empty(B, H, S, device=dev),
        torch.empty(B, H, S, D, device=dev),
    )


def eager_row(what, X, W, B):
    """PyTorch's own way of the row kernel `what`, as a function."""
    return {
        "silu": lambda: F.silu(X),
        "softmax": lambda: torch.softmax(X, -1),
        "rms": lambda: F.rms_norm(X, (X.shape[1],), W, 1e-5),
        "layer": lambda: F.layer_norm(X, (X.shape[1],), W, B, 1e-5),
        "transpose": lambda: X.T.contiguous(),
    }[what]
