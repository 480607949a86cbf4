"""Rows of attention over packed sequences of unequal length, beside FlashAttention-4's and PyTorch's
FlashAttention-2."""

import inspect, math, re
import torch
import fa4
from attention import heads
from common import DT

FORM = "--sequences=H32[HK8]D128[causal][W1024][:bf16]:4096x4+1000+1"


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


def attend(q, k, v, qs, ks, scale, causal, window):
    """Sequence by sequence in float32 (for a check)."""
    o, group = torch.zeros_like(q, dtype=torch.float32), q.shape[1] // k.shape[1]
    a, b = qs.tolist(), ks.tolist()
    for m0, m1, n0, n1 in zip(a, a[1:], b, b[1:]):
        m, n = m1 - m0, n1 - n0
        i = torch.arange(m, device="cuda")[:, None] + (n - m)
        j = torch.arange(n, device="cuda")[None]
        seen = (i >= j) | (not causal)
        seen = seen & (i - j < window) if window else seen
        for h in range(q.shape[1] if m and n else 0):
            s = q[m0:m1, h].float() @ k[n0:n1, h // group].float().T * scale
            p = torch.nan_to_num(torch.softmax(s.masked_fill(~seen, -math.inf), -1))
            o[m0:m1, h] = p @ v[n0:n1, h // group].float()
    return o


def _fa4(q, k, v, qs, ks, most, scale, causal, window):
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
    return fa4.peer(lambda: f(q, k, v, **more))


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
    m = re.fullmatch(r"H(\d+)(?:HK(\d+))?D(\d+)(causal)?(?:W(\d+))?(:bf16)?:([\dx+/]+)", text)
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
