"""FlashAttention-4 as a peer of attention and of its gradients, where its package flash-attn-4 is installed.

Its tensors lie as B, M, H, D, so that each peer has copies of its own."""

import torch
from harness import beat

try:
    from flash_attn.cute import flash_attn_func
except Exception as x:  # not installed, or not for this PyTorch
    flash_attn_func, WHY = None, str(x)


def _there():
    if not flash_attn_func:
        print("fa4:", WHY[:200], flush=True)
    return flash_attn_func is not None


def _own(*tensors):
    return [t.detach().transpose(1, 2).contiguous() for t in tensors]


def peer(go):
    """[("fa4", go)], or nothing where it does not run. The first call compiles its kernels."""
    beat("compiling FlashAttention-4", 180)
    try:
        go()
        torch.cuda.synchronize()
        return [("fa4", go)]
    except Exception as x:
        print("fa4:", str(x)[:200], flush=True)
        return []


def forward(q, k, v, scale, causal):
    """The peers of O = softmax(Q K^T scale) V, as [(name, function)]. Tensors are B, H, M, D."""
    if not _there():
        return []
    q, k, v = _own(q, k, v)
    return peer(lambda: flash_attn_func(q, k, v, softmax_scale=scale, causal=causal))


def backward(q, k, v, do, scale, causal, ordered):
    """The peers of the gradients of Q, K and V. ordered: the same bits in every run."""
    if not _there():
        return []
    q, k, v, do = _own(q, k, v, do)
    for x in (q, k, v):
        x.requires_grad_()

    def forward_pass():
        return flash_attn_func(q, k, v, softmax_scale=scale, causal=causal, deterministic=ordered)

    beat("compiling FlashAttention-4", 180)
    try:
        o = forward_pass()
    except Exception as x:
        print("fa4:", str(x)[:200], flush=True)
        return []
    o = o[0] if isinstance(o, tuple) else o
    return peer(lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True))
