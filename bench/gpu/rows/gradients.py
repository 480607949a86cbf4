"""Rows of attention's backward pass, all its kernels together: attention_gradients beside cuDNN and
FlashAttention-4."""

import math, re
import torch
import torch.nn.functional as F
import fa4
from attention import heads
from common import DT
from torch.nn.attention import sdpa_kernel, SDPBackend

FORM = r"B(\d+)H(\d+)(?:HK(\d+))?M(\d+)D(\d+)(causal)?((?::\w+)*)"


class Passes:
    """The kernels of a backward pass: begin, main and end. Made like a kernel, with a plan for tensors."""

    def __init__(self, library, T, causal, ordered):
        self.ordered = ordered
        bind = dict(T=T)
        self.begin, self.main, self.end = (
            library.kernel("attention_gradients", "attention_gradients" + part, **bind, **more)
            for part, more in (
                ("_begin", {}),
                ("", dict(CAUSAL="true" if causal else "false", **({"TN": 128} if ordered else {}))),
                ("_end", {}),
            )
        )

    def plan(self, q, k, v, o, do, L, dq, dk, dv, scale):
        B, H, M, D = q.shape
        sums = torch.empty(B, H, M, D, device="cuda")
        base2, delta = torch.empty_like(L), torch.empty_like(L)
        turn = torch.zeros(B, k.shape[1], -(-k.shape[2] // 128), dtype=torch.int32, device="cuda")
        begin, _ = self.begin.plan(o, do, L, base2, delta, sums)
        order = turn if self.ordered else None
        main, said = self.main.plan(q, k, v, do, base2, delta, sums, dk, dv, scale, 1.0, None, None, order)
        end, _ = self.end.plan(sums, dq, scale)

        def go():
            if self.ordered:
                turn.zero_()
            begin()
            main()
            end()

        return go, said


def head(s, Q, K, V, G, scale):
    """Of one head, in f32, from its scores s: L, O, dQ, and what dK and dV gain by it. G: dO. Rows that see no
    key give 0."""
    p = torch.nan_to_num(torch.softmax(s, -1))
    O = p @ V
    ds = p * (G @ V.T - (G * O).sum(-1, keepdim=True)) * scale
    return torch.logsumexp(s, -1), O, ds @ K, ds.T @ Q, p.T @ G


def reference(q, k, v, do, scale, causal):
    """O, L, dQ, dK and dV in f32, a head at a time."""
    (B, H, M, D), HK = q.shape, k.shape[1]
    o, dq, dk, dv = (torch.zeros(x.shape, device="cuda") for x in (q, q, k, v))
    L = torch.empty(B, H, M, device="cuda")
    hidden = torch.ones(M, M, dtype=torch.bool, device="cuda").triu(1) if causal else None
    for b in range(B):
        for h in range(H):
            g = h * HK // H
            Q, K, V, G = (x.float() for x in (q[b, h], k[b, g], v[b, g], do[b, h]))
            s = Q @ K.T * scale
            if causal:
                s.masked_fill_(hidden, -math.inf)
            L[b, h], o[b, h], dq[b, h], more_k, more_v = head(s, Q, K, V, G, scale)
            dk[b, g] += more_k
            dv[b, g] += more_v
    return o, L, dq, dk, dv


def cudnn(q, k, v, do, scale, causal):
    q, k, v = (x.detach().clone().requires_grad_() for x in (q, k, v))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        o = F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        )
    return lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)


def backward(rows, text):
    """A row of the backward pass by its text, as bench.py's arguments give it."""
    m = re.fullmatch(FORM, text)
    if not m:
        raise RuntimeError(f"--backward=B2H16[HK4]M3000D128[causal][:bf16][:ordered], not {text}")
    B, H, M, D = (int(m[i]) for i in (1, 2, 4, 5))
    HK, causal, rest = int(m[3] or H), bool(m[6]), m[7].split(":")[1:]
    T, ordered = next((x for x in rest if x in DT), "f16"), "ordered" in rest
    q, k, v, do = (torch.randn(B, h, M, D, device="cuda").to(DT[T]) for h in (H, HK, HK, H))
    scale = D**-0.5
    o, L, *want = reference(q, k, v, do, scale, causal)
    out = torch.empty(sum(x.numel() for x in want), device="cuda", dtype=DT[T])
    grads = [x.view(w.shape) for x, w in zip(out.split([w.numel() for w in want]), want)]
    want = torch.cat([x.flatten() for x in want])
    try:
        peers = [] if ordered else [("cudnn", cudnn(q, k, v, do, scale, causal))]
    except Exception as x:
        peers = print(f"cudnn: {str(x)[:100]}", flush=True) or []
    peers += fa4.backward(q, k, v, do, scale, causal, ordered)
    rows.show(
        f"backward {T} {'causal' if causal else 'full'} D{D} B{B} {heads(H, HK)} M{M}"
        + (" ordered" if ordered else ""),
        10 * B * H * D * M * M * (0.5 if causal else 1),
        "TFLOPS",
        peers,
        lambda l: Passes(l, T, causal, ordered),
        (q, k, v, o.to(DT[T]), do, L, *grads, scale),
        out,
        lambda: want,
        1e-2 if T == "bf16" else 2e-3,
        0.9,
    )
