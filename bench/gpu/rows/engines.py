"""Rows of inference engines: a cache of pages, products of many experts, rows picked by number."""

import math
import torch
import torch.nn.functional as F
from common import dev, randn, split_results
from harness import beat, cdiv


def ints(*s):
    return torch.empty(*s, device=dev, dtype=torch.int32)


# ---- attention over pages ----------------------------------------------------------------------------------


def attend_paged(K, J, B, H, HK, N, D=128, ragged=False):
    """One query a sequence against N keys in pages in random order (ragged: up to N keys, and one sequence
    without any): (function, output, reference)"""
    PAGE, S = K.const["PAGE"], J.const["S"]
    most = cdiv(cdiv(N, PAGE), 16) * 16
    P = B * most
    sc = 1 / math.sqrt(D)
    q, k, v = randn(B, H, D), randn(P, PAGE, HK, D), randn(P, PAGE, HK, D)
    o = torch.empty_like(q)
    table = torch.randperm(P, device=dev).to(torch.int32).view(B, most)
    n = (
        torch.randint(1, N + 1, (B,), device=dev, dtype=torch.int32)
        if ragged
        else torch.full((B,), N, device=dev, dtype=torch.int32)
    )
    if ragged:
        n[0] = 0
    pm, pl, po = split_results(B, H, S, D)
    a = K.plan(
        dict(
            Q=q,
            K=k,
            V=v,
            PAGES_OF=table,
            LEN=n,
            PM=pm,
            PL=pl,
            PO=po,
            scale=sc,
            B=B,
            H=H,
            HK=HK,
            D=D,
            S=S,
            P=P,
            PAGE=PAGE,
            MOST=most,
        ),
        (S, HK, B),
    )
    j = J.plan(dict(PM=pm, PL=pl, PO=po, O=o, B=B, H=H, S=S, D=D), (H, B))

    def go():
        a()
        j()

    def want():
        r = torch.zeros(q.shape, dtype=torch.float64, device=dev)
        for b in range(B):
            m = int(n[b])
            if not m:
                continue
            kk, vv = (x[table[b].long()].reshape(most * PAGE, HK, D)[:m].double() for x in (k, v))
            s = torch.softmax(torch.einsum("hgd,nhd->hgn", q[b].double().view(HK, H // HK, D), kk) * sc, -1)
            r[b] = torch.einsum("hgn,nhd->hgd", s, vv).reshape(H, D)
        return r

    return go, o, want


def attend_contiguous(K, J, B, H, HK, N, D=128):
    S = J.const["S"]
    q, k, v = randn(B, H, D), randn(B, HK, N, D), randn(B, HK, N, D)
    o = torch.empty_like(q)
    pm, pl, po = split_results(B, H, S, D)
    a = K.plan(
        dict(Q=q, K=k, V=v, PM=pm, PL=pl, PO=po, scale=1 / math.sqrt(D), B=B, H=H, HK=HK, N=N, D=D, S=S),
        (HK, B, S),
    )
    j = J.plan(dict(PM=pm, PL=pl, PO=po, O=o, B=B, H=H, S=S, D=D), (H, B))

    def go():
        a()
        j()

    return go


def paged(b):
    """beside the same keys without pages, by attention_decode: what pages cost"""
    J, J0, H, HK = b.kernel("paged_join"), b.kernel("join"), 32, 8
    for prefix, must in (("paged16", 0.85), ("paged64", 0.95)):
        ks = [
            K
            for K in b.named(prefix)
            if b.check(K.name, *attend_paged(K, J, 5, 8, 2, 1000, ragged=True), 2e-3)
        ]
        for B, N in ((16, 32768), (64, 8192)):
            plain = [(K.name, attend_contiguous(K, J0, B, H, HK, N)) for K in b.named("decode")]
            b.row(
                f"pages of {prefix[5:]}, decode B{B} H{H}/{HK} N{N}",
                4 * B * HK * N * 128,
                "TB/s",
                plain,
                [(K.name, attend_paged(K, J, B, H, HK, N)[0]) for K in ks],
                must,
            )
            torch.cuda.empty_cache()


def prompt_paged(K, lengths, before, H, HK, D=128):
    """causal, sequences of these many queries behind `before` keys: (function, output, reference)"""
    PAGE, TM = K.const["PAGE"], K.const["TM"]
    B, R = len(lengths), sum(lengths)
    most = cdiv(max(lengths) + before, PAGE)
    P = B * most
    sc = 1 / math.sqrt(D)
    q, k, v = randn(R, H, D), randn(P, PAGE, HK, D), randn(P, PAGE, HK, D)
    o = torch.empty_like(q)
    table = torch.randperm(P, device=dev).to(torch.int32).view(B, most)
    start = F.pad(torch.tensor(lengths, device=dev).cumsum(0), (1, 0)).to(torch.int32)
    n = (torch.tensor(lengths, device=dev) + before).to(torch.int32)
    go = K.plan(
        dict(
            Q=q,
            K=k,
            V=v,
            PAGES_OF=table,
            LEN=n,
            START=start,
            O=o,
            scale=sc,
            most=max(lengths),
            B=B,
            B1=B + 1,
            R=R,
            H=H,
            HK=HK,
            D=D,
            P=P,
            PAGE=PAGE,
            MOST=most,
        ),
        (H, cdiv(max(lengths), TM), B),
    )

    def want():
        r = torch.empty(q.shape, dtype=torch.float64, device=dev)
        for b, m in enumerate(lengths):
            kk, vv = (
                x[table[b].long()]
                .reshape(most * PAGE, HK, D)[: m + before]
                .double()
                .repeat_interleave(H // HK, 1)
                for x in (k, v)
            )
            a = int(start[b])
            s = torch.einsum("mhd,nhd->hmn", q[a : a + m].double(), kk) * sc
            late = torch.arange(m + before, device=dev)[None] > torch.arange(m, device=dev)[:, None] + before
            r[a : a + m] = torch.einsum("hmn,nhd->mhd", torch.softmax(s.masked_fill(late, -math.inf), -1), vv)
        return r

    return go, o, want


def prompt(b):
    """beside the same without pages: cuDNN and, where it was generated, our own"""
    from attention import sdpa, SDPBackend, attend

    ks = [
        K
        for K in b.named("paged_prefill")
        if b.check(K.name, *prompt_paged(K, [300, 1, 129, 512], 77, 4, 2), 2e-3)
    ]
    for B, N in ((4, 4096), (2, 16384)):
        plans = [(K.name, prompt_paged(K, [N] * B, 0, 32, 8)[0]) for K in ks]
        if not plans:
            return
        q, k, v = randn(B, 32, N, 128), randn(B, 8, N, 128), randn(B, 8, N, 128)
        plain = [(K.name, attend(b, K, (B, 32, 8, N, N, 128))[0]) for K in b.named("ac128")]
        b.row(
            f"pages of 16, prompt B{B} H32/8 N{N} causal",
            2 * B * 32 * N * N * 128,
            "TFLOPS",
            [
                ("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, True)),
                ("fa2", sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, True)),
            ],
            plans,
            None,
            beside=plain,
        )
        torch.cuda.empty_cache()


# ---- products of many groups -------------------------------------------------------------------------------


def grouped_mm(a, w, off):
    """PyTorch's, where it has one"""
    if not hasattr(torch, "_grouped_mm"):
        return []
    try:
        torch._grouped_mm(a, w, offs=off)
        torch.cuda.synchronize()
    except Exception as x:
        print("torch._grouped_mm", str(x)[:120])
        return []
    return [("torch", lambda: torch._grouped_mm(a, w, offs=off))]


def multiply_groups(b, K, sizes, N, Kd):
    E, M, TM = len(sizes), sum(sizes), K.const["TM"]
    T = cdiv(M, TM) + E
    P = b.kernel(f"grouped_plan.{E}")
    A, W = randn(M, Kd, dt=torch.bfloat16), randn(E, Kd, N, dt=torch.bfloat16)
    C = torch.empty(M, N, device=dev, dtype=torch.bfloat16)
    ends = torch.tensor(sizes, device=dev).cumsum(0).to(torch.int32)
    start = F.pad(ends, (1, 0))
    g, f, l = ints(T), ints(T), ints(T)
    p = P.plan(dict(START=start, GROUP=g, FIRST=f, LAST=l, E1=E + 1, TILES=T), (T,))
    a = K.plan(
        dict(A=A, W=W, GROUP=g, FIRST=f, LAST=l, C=C, M=M, N=N, K=Kd, E=E, TILES=T),
        (cdiv(N, K.const["TN"]), T),
    )

    def go():
        p()
        a()

    return (
        go,
        C,
        lambda: torch.cat([x.double() @ w.double() for x, w in zip(A.split(sizes), W)]),
        (A, W, ends),
    )


def grouped(b):
    ks = [K for K in b.named("grouped") if "E1" not in K.const]
    ks = [
        K
        for K in ks
        if b.check(K.name, *multiply_groups(b, K, [130, 1, 0, 127, 300, 128, 256, 77], 512, 256)[:3], 8e-3)
    ]
    D = b.kernel("gemm_bf16")
    for what, sizes, N, Kd, must in (
        ("even", [1024] * 8, 4096, 4096, 0.9),
        ("uneven", [2048, 1500, 900, 700, 1100, 600, 900, 444], 4096, 4096, 0.9),
        ("short", [64 * (i % 5 + 2) for i in range(32)], 4096, 2048, 0.9),
    ):
        M = sum(sizes)
        plans = [(K.name,) + multiply_groups(b, K, sizes, N, Kd) for K in ks]
        A, B, C = (
            randn(M, Kd, dt=torch.bfloat16),
            randn(Kd, N, dt=torch.bfloat16),
            torch.empty(M, N, device=dev, dtype=torch.bfloat16),
        )
        dense = (
            [("dense", D.plan(dict(A=A, B=B, C=C, M=M, N=N, K=Kd), (cdiv(M, 128), cdiv(N, 256))))]
            if D and M % 128 == 0
            else []
        )
        b.row(
            f"grouped bf16 {what}: {len(sizes)} of {M} rows, {N}x{Kd}",
            2 * M * N * Kd,
            "TFLOPS",
            grouped_mm(*plans[0][4]),
            [(p[0], p[1]) for p in plans],
            must,
            beside=dense,
        )
        del plans
        torch.cuda.empty_cache()


# ---- a mixture of experts ----------------------------------------------------------------------------------


def mix(b, G, M, E, TOP, K, N):
    """(function, output, reference, PyTorch's way)"""
    R, P, D, C = b.kernel("moe_route"), b.kernel("moe_plan"), b.kernel("moe_down"), b.kernel("moe_combine")
    S, TM = M * TOP, G.const["TM"]
    T = cdiv(S, TM) + E
    bf = torch.bfloat16
    X = randn(M, K, dt=bf)
    WG, WU, WD = randn(E, K, N, dt=bf) / 32, randn(E, K, N, dt=bf) / 32, randn(E, N, K, dt=bf) / 32
    who = torch.rand(M, E, device=dev).topk(TOP)[1].to(torch.int32)
    W = torch.rand(M, TOP, device=dev)
    start, row, place, g, f, l = ints(E + 1), ints(S), ints(M, TOP), ints(T), ints(T), ints(T)
    H, Y, O = (torch.empty(*s, device=dev, dtype=bf) for s in ((S, N), (S, K), (M, K)))
    steps = [
        R.plan(
            dict(EXPERT=who, START=start, ROW=row, PLACE=place, M=M, TOP=TOP, E1=E + 1, SLOTS=S), (E + 1,)
        ),
        P.plan(dict(START=start, GROUP=g, FIRST=f, LAST=l, E1=E + 1, TILES=T), (T,)),
        G.plan(
            dict(
                X=X,
                ROW=row,
                WG=WG,
                WU=WU,
                GROUP=g,
                FIRST=f,
                LAST=l,
                H=H,
                M=M,
                K=K,
                N=N,
                E=E,
                SLOTS=S,
                TILES=T,
            ),
            (cdiv(N, G.const["TN"]), T),
        ),
        D.plan(
            dict(H=H, WD=WD, GROUP=g, FIRST=f, LAST=l, Y=Y, SLOTS=S, N=N, K=K, E=E, TILES=T),
            (cdiv(K, D.const["TN"]), T),
        ),
        C.plan(
            dict(Y=Y, PLACE=place, WEIGHT=W, O=O, SLOTS=S, K=K, M=M, TOP=TOP),
            (cdiv(K, C.const.get("TD", 128)), cdiv(M, C.const.get("TT", 8))),
        ),
    ]

    def go():
        for s in steps:
            s()

    def want():
        o = torch.zeros(M, K, dtype=torch.float64, device=dev)
        for e in range(E):
            t, c = (who == e).nonzero(as_tuple=True)
            x = X[t].double()
            o.index_add_(
                0,
                t,
                W[t, c, None].double()
                * ((F.silu(x @ WG[e].double()) * (x @ WU[e].double())) @ WD[e].double()),
            )
        return o

    def peer():
        order = torch.argsort(who.flatten(), stable=True)
        t = order // TOP
        ends = torch.bincount(who.flatten(), minlength=E).cumsum(0).to(torch.int32)
        x = X[t]
        h = F.silu(torch._grouped_mm(x, WG, offs=ends)) * torch._grouped_mm(x, WU, offs=ends)
        return torch.zeros_like(O).index_add_(
            0, t, torch._grouped_mm(h, WD, offs=ends) * W.flatten()[order, None].to(bf)
        )

    return go, O, want, peer


def experts(b):
    if not b.kernel("moe_route"):
        return
    M, E, TOP, K, N = 8192, 8, 2, 4096, 2048
    ks = [G for G in b.named("moe_gate") if b.check(G.name, *mix(b, G, 500, 8, 2, 512, 768)[:3], 2e-2)]
    plans = [(G.name,) + mix(b, G, M, E, TOP, K, N) for G in ks]
    if not plans:
        return
    peers = [("torch", plans[0][4])] if hasattr(torch, "_grouped_mm") else []
    beat("mixture of experts", 60)
    b.row(
        f"experts bf16: {M} tokens, {TOP} of {E}, {K}x{N}",
        6 * M * TOP * K * N,
        "TFLOPS",
        peers,
        [(p[0], p[1]) for p in plans],
        1.0,
    )


def rows_by_number(b):
    V, D, N = 128256, 4096, 16384
    T, I = randn(V, D), torch.randint(0, V, (N,), device=dev, dtype=torch.int32)
    Y, Z = randn(N, D), randn(N, D)
    ks = []
    for K in b.named("embedding"):
        go = K.plan(dict(ID=I, TABLE=T, Y=Y, N=N, V=V, D=D), (cdiv(D, K.const["TD"]), cdiv(N, K.const["TT"])))
        if b.check(K.name, go, Y, lambda: T[I.long()], 0):
            ks.append((K.name, go))
    b.row(
        f"embedding {N} of {V} x {D}",
        4 * N * D,
        "TB/s",
        [("torch", lambda: torch.index_select(T, 0, I, out=Z))],
        ks,
        1.0,
        beside=[("copy", lambda: Z.copy_(Y))],
    )


CASES = [
    ("eng.paged", paged),
    ("eng.prompt", prompt),
    ("eng.grouped", grouped),
    ("eng.experts", experts),
    ("eng.embedding", rows_by_number),
]
