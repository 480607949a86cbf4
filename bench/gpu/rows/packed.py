"""Rows of attention over packed sequences of unequal length, beside FlashAttention-4's and PyTorch's
FlashAttention-2."""

import inspect, math, re
import torch
import fa4
from attention import heads
from common import DT
from gradients import head

FORM = "--sequences=H32[HK8]D128[causal][W1024][:bf16]:4096x4+1000+1[:backward]"


def lengths_of(text):
    """4096x4+1000+1: four sequences of 4096, one of 1000, one of 1. With `/`, queries/keys."""
    some = []
    for part in text.split("+"):
        one, times = (part.split("x") + ["1"])[:2]
        q, k = (one.split("/") * 2)[:2]
        some += [(int(q), int(k))] * int(times)
    return some


def starts(lengths):
    return torch.tensor([0] + lengths, device="cuda").cumsum(0).to(torch.int32)


def pairs_of(m, n, causal, window):
    """How many (query, key) pairs a sequence has."""
    i = torch.arange(m) + (n - m)
    high = (i + 1).clamp(0, n) if causal or window else torch.full_like(i, n)
    low = (i - window + 1).clamp(0, n) if window else torch.zeros_like(i)
    return int((high - low).clamp_min(0).sum())


def scores(q, k, v, qs, ks, scale, causal, window):
    """A head of a sequence at a time, in float32: its number, its rows of queries and of keys, its scores."""
    group, a, b = q.shape[1] // k.shape[1], qs.tolist(), ks.tolist()
    for m0, m1, n0, n1 in zip(a, a[1:], b, b[1:]):
        m, n = m1 - m0, n1 - n0
        i = torch.arange(m, device="cuda")[:, None] + (n - m)
        j = torch.arange(n, device="cuda")[None]
        seen = (i >= j) | (not causal)
        seen = seen & (i - j < window) if window else seen
        for h in range(q.shape[1] if m and n else 0):
            s = q[m0:m1, h].float() @ k[n0:n1, h // group].float().T * scale
            yield h, slice(m0, m1), slice(n0, n1), s.masked_fill_(~seen, -math.inf)


def attend(q, k, v, *more):
    """O in float32 (for a check)."""
    o, group = torch.zeros_like(q, dtype=torch.float32), q.shape[1] // k.shape[1]
    for h, m, n, s in scores(q, k, v, *more):
        o[m, h] = torch.nan_to_num(torch.softmax(s, -1)) @ v[n, h // group].float()
    return o


def gradients(q, k, v, do, qs, ks, scale, *more):
    """O, L, dQ, dK and dV in float32."""
    o, dq, dk, dv = (torch.zeros_like(x, dtype=torch.float32) for x in (q, q, k, v))
    L, group = torch.full((q.shape[1], q.shape[0]), -math.inf, device="cuda"), q.shape[1] // k.shape[1]
    for h, m, n, s in scores(q, k, v, qs, ks, scale, *more):
        g = h // group
        Q, G, K, V = (x[rows, of].float() for x, rows, of in ((q, m, h), (do, m, h), (k, n, g), (v, n, g)))
        L[h, m], o[m, h], dq[m, h], more_k, more_v = head(s, Q, K, V, G, scale)
        dk[n, g] += more_k
        dv[n, g] += more_v
    return o, L, dq, dk, dv


class Passes:
    """The kernels of a backward pass: begin, main and end. Made like a kernel, with a plan for tensors."""

    def __init__(self, library, T, causal, window):
        name, bind = "attention_backward_packed", dict(CAUSAL="true" if causal else "false", WINDOW=window)
        self.begin, self.main, self.end = (
            library.kernel(name, name + part, T=T, **more)
            for part, more in (("_begin", {}), ("", bind), ("_end", {}))
        )

    def plan(self, q, k, v, o, do, L, qs, ks, dq, dk, dv, scale):
        (R, H, D), B1 = q.shape, qs.numel()
        P = (R // 128 + B1 - 1) * 128
        base2, delta, sums = (torch.empty(H, P, *more, device="cuda") for more in ((), (), (D,)))
        begin, _ = self.begin.plan(o, do, L, qs, base2, delta, sums)
        main, said = self.main.plan(q, k, v, do, base2, delta, qs, ks, sums, dk, dv, scale)
        end, _ = self.end.plan(sums, qs, dq, scale)
        return lambda: (begin(), main(), end()), said


def _gradients_of(go, q, k, v, do):
    """Of a peer of the forward pass, that of the gradients."""
    if not go:
        return []
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    try:
        o = go(q, k, v)
        o = o[0] if isinstance(o, tuple) else o
    except Exception as x:
        print("peer:", str(x)[:200], flush=True)
        return []
    return lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)


def _fa4(q, k, v, qs, ks, most, scale, causal, window, do=None):
    try:
        from flash_attn.cute import flash_attn_varlen_func as f
    except Exception as x:
        print("fa4:", str(x)[:200], flush=True)
        return []
    known = inspect.signature(f).parameters
    more = dict(
        cu_seqlens_q=qs,
        cu_seqlens_k=ks,
        max_seqlen_q=most[0],
        max_seqlen_k=most[1],
        softmax_scale=scale,
        causal=causal,
        window_size=(window - 1, 0) if window else (None, None),
    )
    more = {name: x for name, x in more.items() if name in known}
    if do is None:
        return fa4.peer(lambda: f(q, k, v, **more))
    go = _gradients_of(lambda *x: f(*x, **more), q, k, v, do)
    return fa4.peer(go) if go else []


def _fa2(q, k, v, qs, ks, most, scale, causal, window):
    def go():
        return torch.ops.aten._flash_attention_forward(
            q, k, v, qs, ks, most[0], most[1], 0.0, causal, False, scale=scale,
            window_size_left=window - 1 if window else None, window_size_right=0 if window else None,
        )

    try:
        go()
        torch.cuda.synchronize()
        return [("fa2", go)]
    except Exception as x:
        print("fa2:", str(x)[:200], flush=True)
        return []


def row(rows, text):
    m = re.fullmatch(r"H(\d+)(?:HK(\d+))?D(\d+)(causal)?(?:W(\d+))?(:bf16)?:([\dx+/]+)(:backward)?", text)
    if not m:
        raise RuntimeError(f"{FORM}, not {text}")
    H, D, causal, window = int(m[1]), int(m[3]), bool(m[4]) or bool(m[5]), int(m[5] or 0)
    HK, T = int(m[2] or H), "bf16" if m[6] else "f16"
    lengths, scale = lengths_of(m[7]), D**-0.5
    qs, ks = starts([x for x, _ in lengths]), starts([x for _, x in lengths])
    most = [max(x) for x in zip(*lengths)]
    R, S = int(qs[-1]), int(ks[-1])
    q, k, v = (torch.randn(n, h, D, device="cuda").to(DT[T]) for n, h in ((R, H), (S, HK), (S, HK)))
    o = torch.empty_like(q)
    args = (q, k, v, qs, ks, most, scale, causal, window)
    if m[8]:
        return backward(rows, m, T, args, sum(pairs_of(*x, causal, window) for x in lengths))
    rows.show(
        f"packed {T} {'causal' if causal else 'full'} D{D} {heads(H, HK)}{f' W{window}' if window else ''} {m[7]}",
        4 * H * D * sum(pairs_of(*x, causal, window) for x in lengths),
        "TFLOPS",
        _fa4(*args) + _fa2(*args),
        lambda l: l.kernel(
            "attention_packed",
            "attention_packed",
            T=T,
            CAUSAL="true" if causal else "false",
            WINDOW=window,
            **({"G": H // HK} if H > HK and 64 % (H // HK) == 0 else {}),
        ),
        (q, k, v, qs, ks, o, scale, None),
        o,
        lambda: attend(q, k, v, qs, ks, scale, causal, window),
        8e-3 if T == "bf16" else 2e-3,
        1.0,
    )


def backward(rows, m, T, args, pairs):
    q, k, v, qs, ks, most, scale, causal, window = args
    do, (H, HK, D) = torch.randn_like(q), (q.shape[1], k.shape[1], q.shape[2])
    o, L, *want = gradients(q, k, v, do, qs, ks, scale, causal, window)
    out = torch.empty(sum(x.numel() for x in want), device="cuda", dtype=q.dtype)
    grads = [x.view(w.shape) for x, w in zip(out.split([w.numel() for w in want]), want)]
    want = torch.cat([x.flatten() for x in want])
    rows.show(
        f"backward packed {T} {'causal' if causal else 'full'} D{D} {heads(H, HK)}"
        f"{f' W{window}' if window else ''} {m[7]}",
        10 * H * D * pairs,
        "TFLOPS",
        _fa4(*args, do),
        lambda l: Passes(l, T, causal, window),
        (q, k, v, o.to(q.dtype), do, L, qs, ks, *grads, scale),
        out,
        lambda: want,
        1e-2 if T == "bf16" else 2e-3,
        0.9,
    )


def append(rows, text):
    """M new tokens of each sequence go into its cache of N and attend to it, against a copy into the cache and
    then cuDNN, or FlashAttention-4. The bytes counted are those of the keys and values that are there."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right
    import torch.nn.functional as F

    m = re.fullmatch(r"B(\d+)H(\d+)HK(\d+)D(\d+)M(\d+)N(\d+)(:bf16)?", text)
    if not m:
        raise RuntimeError(f"--append=B16H32HK8D128M1N8192[:bf16], not {text}")
    B, H, HK, D, M, N = (int(x) for x in m.groups()[:6])
    T, had = "bf16" if m[7] else "f16", N - M
    q, o = (torch.randn(B, M, H, D, device="cuda").to(DT[T]) for _ in range(2))
    kn, vn = (torch.randn(B, M, HK, D, device="cuda").to(DT[T]) for _ in range(2))
    k, v = (torch.randn(B, N, HK, D, device="cuda").to(DT[T]) for _ in range(2))
    length, scale = torch.full((B,), had, device="cuda", dtype=torch.int32), D**-0.5

    def copied():
        k[:, had:].copy_(kn)
        v[:, had:].copy_(vn)

    def cudnn():
        copied()
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]):
            return F.scaled_dot_product_attention(
                *(x.transpose(1, 2) for x in (q, k, v)),
                attn_mask=causal_lower_right(M, N) if M > 1 else None,
                enable_gqa=H != HK,
            )

    peers = [("copy+sdpa", cudnn)]
    if fa4.flash_attn_func:

        def four():
            copied()
            return fa4.flash_attn_func(q, k, v, softmax_scale=scale, causal=M > 1)

        peers += [("copy+fa4", go) for _, go in fa4.peer(four)]
    ends = torch.arange(B + 1, device="cuda")
    qs, ks = (ends * M).to(torch.int32), (ends * N).to(torch.int32)

    def want():
        copied()
        flat = [x.reshape(-1, x.shape[2], D) for x in (q, k, v)]
        return attend(*flat, qs, ks, scale, True, 0).view(B, M, H, D)

    G = H // HK
    rows.show(
        f"append {T} D{D} B{B} {heads(H, HK)} M{M} N{N}",
        2 * B * HK * N * D * k.element_size() if M < 32 else 4 * B * H * D * pairs_of(M, N, True, 0),
        "TB/s" if M < 32 else "TFLOPS",
        peers,
        lambda l: l.kernel("attention_append", "attention_append", T=T, G=G),
        (q, kn, vn, length, k, v, o, scale),
        o,
        want,
        8e-3 if T == "bf16" else 2e-3,
        1.0,
    )
