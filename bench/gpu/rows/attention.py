"""Rows of attention, its variants and decoding, against float64 references, cuDNN, FlashAttention-2 and
FlexAttention."""

import math
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
import triton_peers
from common import DT, dev, randn, split_results, triton
from harness import beat, cdiv


def scores(q, k, sc, score=None, mask=None):
    """float64 scores of one head; score(s, i, j) and mask(i, j) as the variant has them"""
    s = (q.double() @ k.double().T) * sc
    i = torch.arange(q.shape[0], device=dev)[:, None]
    j = torch.arange(k.shape[0], device=dev)[None]
    if score:
        s = score(s, i, j)
    if mask:
        s = s.masked_fill(~mask(i, j), -math.inf)
    return s


def reference(q, k, v, sc, score=None, mask=None, sink=None):
    B, H, M, D = q.shape
    G = H // k.shape[1]
    o = torch.empty(B, H, M, v.shape[3], dtype=torch.float64, device=dev)
    for b in range(B):
        for h in range(H):
            s = scores(
                q[b, h], k[b, h // G], sc, (lambda x, i, j: score(x, b, h, i, j)) if score else None, mask
            )
            if sink is not None:
                s = torch.cat([s, sink[h].double().expand(M, 1)], 1)
            p = torch.nan_to_num(torch.softmax(s, -1), 0.0)
            o[b, h] = p[:, : k.shape[2]] @ v[b, h // G].double()
    return o


def sdpa(be, q, k, v, causal):
    def go():
        with sdpa_kernel(be):
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
            )

    return go


def attend(b, K, problem, extra=lambda *a: {}, score=None, mask=None, sink=None):
    """launches kernel K on a problem (B, H, HK, M, N, D); returns (function, q, k, v, o, args)"""
    B, H, HK, M, N, D = problem
    dt = DT[K.const.get("T", "f16")]
    q, k, v = randn(B, H, M, D, dt=dt), randn(B, HK, N, D, dt=dt), randn(B, HK, N, D, dt=dt)
    o = torch.empty_like(q)
    a = dict(Q=q, K=k, V=v, O=o, scale=1 / math.sqrt(D), B=B, H=H, HK=HK, M=M, N=N, D=D)
    a.update(extra(B, H, M, N, dt))
    return K.plan(a, (cdiv(M, K.const["TM"]), H, B)), q, k, v, o, a


SMALL = [(2, 3, 3, 512, 512), (1, 4, 2, 384, 384), (1, 2, 2, 128, 128), (1, 2, 2, 640, 640)]
RAGGED = [(1, 2, 2, 1000, 1000), (1, 2, 1, 1009, 1009), (2, 2, 2, 9, 9)]


def right(b, K, D, small, extra=lambda *a: {}, score=None, mask=None, sink=None):
    for p in small:
        go, q, k, v, o, a = attend(b, K, p + (D,), extra)
        ref = lambda: reference(
            q,
            k,
            v,
            a["scale"],
            (lambda s, bb, h, i, j: score(s, a, bb, h, i, j)) if score else None,
            mask(p) if mask else None,
            a["SINK"] if sink else None,
        )
        if not b.check(f"{K.name} {p}", go, o, ref, 8e-3 if K.const.get("T") == "bf16" else 1e-3):
            return False
    return True


def heads(H, HK):
    return f"H{H}" if HK == H else f"H{H}/{HK}"


def causal_mask(i, j):
    return i >= j


def attention_rows(D, causal, rows, name, small, T="f16", must=1.0, peer="cudnn"):
    def case(b):
        ks = [
            K
            for K in b.named(name)
            if right(b, K, D, small, mask=(lambda p: causal_mask) if causal else None)
        ]

        def check(make):
            q, k, v = randn(2, 4, 512, D), randn(2, 2, 512, D), randn(2, 2, 512, D)
            o = torch.empty_like(q)
            return b.check(
                f"triton attention D{D}",
                make(q, k, v, o, causal),
                o,
                lambda: reference(q, k, v, 1 / math.sqrt(D), mask=causal_mask if causal else None),
                1e-3,
            )

        tri = (
            triton(b, f"attention D{D}", triton_peers.attention, check, "attention", D, causal)
            if T == "f16" and peer == "cudnn"
            else []
        )
        for B, H, HK, M, N in rows:
            plans = [attend(b, K, (B, H, HK, M, N, D)) + (K,) for K in ks]
            dt = DT[T]
            q, k, v = randn(B, H, M, D, dt=dt), randn(B, HK, N, D, dt=dt), randn(B, HK, N, D, dt=dt)
            work = 4 * B * H * M * N * D * (0.5 if causal else 1)
            b.row(
                f"attention {T} {'causal' if causal else 'full'} D{D} B{B} {heads(H, HK)} M{M} N{N}",
                work,
                "TFLOPS",
                [("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, causal))] * (peer == "cudnn")
                + [("fa2", sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, causal))]
                + [(n, f(q, k, v, torch.empty_like(q), causal)) for n, f in tri if M % 128 == 0],
                [(p[6].name, p[0]) for p in plans],
                must,
            )

    return case


_flex = {}


def flex(key, q, k, v, score_mod=None, mask_mod=None):
    """PyTorch's compiled FlexAttention"""
    from torch.nn.attention.flex_attention import flex_attention, create_block_mask

    beat("compiling flex " + key, 120)
    if "f" not in _flex:
        _flex["f"] = torch.compile(flex_attention, dynamic=False)
        torch._dynamo.config.recompile_limit = (
            1000  # each variant is one more: behind the limit it runs without being compiled
        )
    bm = create_block_mask(mask_mod, None, None, q.shape[2], k.shape[2], device=dev) if mask_mod else None
    go = lambda: _flex["f"](q, k, v, score_mod=score_mod, block_mask=bm, enable_gqa=q.shape[1] != k.shape[1])
    go()
    torch.cuda.synchronize()
    return go


def variant(
    name,
    D,
    problem,
    extra=lambda *a: {},
    score=None,
    mask=None,
    sink=None,
    flex_mods=None,
    cudnn=None,
    work=None,
    small=SMALL,
    must=1.3,
):
    def case(b):
        B, H, HK, M, N = problem
        ks = [K for K in b.named(name) if right(b, K, D, small, extra, score, mask, sink)]
        plans = [attend(b, K, problem + (D,), extra) + (K,) for K in ks]
        if not plans:
            return
        q, k, v, a = plans[0][1], plans[0][2], plans[0][3], plans[0][5]
        peers = []
        if flex_mods:
            try:
                peers.append(("flex", flex(name, q, k, v, **flex_mods(a))))
            except Exception as x:
                print("flex", name, str(x)[:200])
        if cudnn:
            peers.append(("cudnn", cudnn(q, k, v, a)))
        w = work(B, H, M, N, D) if work else 4 * B * H * M * N * D * 0.5
        b.row(
            f"{name} D{D} B{B} {heads(H, HK)} M{M} N{N}",
            w,
            "TFLOPS",
            peers,
            [(p[6].name, p[0]) for p in plans],
            must,
        )

    return case


P8 = (4, 32, 32, 8192, 8192)


def mask_causal(b, h, i, j):
    return i >= j


WINDOW = 1024


def mask_window(b, h, i, j):
    return (i >= j) & (i - j < WINDOW)


def slopes(B, H, M, N, dt):
    return dict(SLOPE=torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], device=dev))


def sinks(B, H, M, N, dt):
    return dict(SINK=torch.randn(H, device=dev))


def bias(B, H, M, N, dt):
    return dict(BIAS=randn(B, H, M, N, dt=dt))


def flex_cap(a):
    def f(s, b, h, i, j):
        return 20.0 * torch.tanh(s / 20.0)

    return dict(score_mod=f, mask_mod=mask_causal)


def flex_alibi(a):
    sl = a["SLOPE"]

    def f(s, b, h, i, j):
        return s - sl[h] * (i - j).abs()

    return dict(score_mod=f, mask_mod=mask_causal)


def flex_bias(a):
    bi = a["BIAS"]

    def f(s, b, h, i, j):
        return s + bi[b, h, i, j]

    return dict(score_mod=f)


def window_work(B, H, M, N, D):
    return 4 * B * H * D * sum(min(i + 1, WINDOW) for i in range(M))


def cross(b):
    P = (4, 32, 32, 2048, 8192)
    D = 128
    M, N = P[3], P[4]
    off = lambda p: (lambda i, j: i + (p[4] - p[3]) >= j)
    ks = [
        K
        for K in b.named("attn_cross")
        if right(b, K, D, [(1, 2, 2, 256, 640), (1, 2, 1, 128, 1024)], mask=off)
    ]
    plans = [attend(b, K, P + (D,)) + (K,) for K in ks]
    if not plans:
        return
    q, k, v = plans[0][1:4]
    f = flex("cross", q, k, v, mask_mod=lambda bb, h, i, j: i + (N - M) >= j)
    b.row(
        f"attn_cross D128 B4 H32 M{M} N{N}",
        4 * P[0] * P[1] * D * (M * N - M * M / 2),
        "TFLOPS",
        [("flex", f)],
        [(p[6].name, p[0]) for p in plans],
        1.3,
    )


def decode(b):
    B, H, HK, N, D = 16, 32, 8, 32768, 128
    sc = 1 / math.sqrt(D)
    J = b.kernel("join")

    def plan(K, B, H, HK, N):
        S = J.const["S"]
        q = randn(B, H, D)
        k, v = randn(B, HK, N, D), randn(B, HK, N, D)
        o = torch.empty_like(q)
        pm, pl, po = split_results(B, H, S, D)
        a = K.plan(
            dict(Q=q, K=k, V=v, PM=pm, PL=pl, PO=po, scale=sc, B=B, H=H, HK=HK, N=N, D=D, S=S), (HK, B, S)
        )
        j = J.plan(dict(PM=pm, PL=pl, PO=po, O=o, B=B, H=H, S=S, D=D), (H, B))

        def go():
            a()
            j()

        return go, q, k, v, o

    ours = []
    for K in b.named("decode"):
        go, q, k, v, o = plan(K, 2, 8, 2, 4096)
        if b.check(K.name, go, o, lambda: reference(q[:, :, None], k, v, sc)[:, :, 0], 2e-3):
            ours.append((K.name, plan(K, B, H, HK, N)[0]))
    q, k, v = randn(B, H, 1, D), randn(B, HK, N, D), randn(B, HK, N, D)
    b.row(
        f"decode B{B} H{H}/{HK} N{N}",
        2 * B * HK * N * D * 2,
        "TB/s",
        [
            ("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, False)),
            ("fa2", sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, False)),
        ],
        ours,
        1.0,
    )
