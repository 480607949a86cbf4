"""Rows of kernels that memory bounds, against a copy of the same bytes, PyTorch and Triton."""

import torch
import torch.nn.functional as F
import triton_peers
from common import DT, dev, eager_row, randn, triton
from harness import cdiv


def stream(name, what, shape, T="f16", grid=lambda c, M, N: (cdiv(M, c.get("ROWS", 1)),), must=0.95):
    def case(b):
        M, N = shape
        dt = DT[T]
        X = randn(M, N, dt=dt)
        W, Bb = randn(N, dt=dt), randn(N, dt=dt)
        turn = what == "transpose"
        Z = torch.empty_like(X)
        f = X.double() if M * N < 1 << 24 else X.float()
        want = {
            "silu": lambda: F.silu(f),
            "softmax": lambda: torch.softmax(f, -1),
            "rms": lambda: f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5) * W.to(f.dtype),
            "layer": lambda: F.layer_norm(f, (N,), W.to(f.dtype), Bb.to(f.dtype), 1e-5),
            "transpose": lambda: f.T,
        }[what]
        ours = []
        for K in b.named(name):
            Y = torch.empty((N, M) if turn else (M, N), device=dev, dtype=dt)
            go = K.plan(dict(X=X, W=W, B=Bb, Y=Y, eps=1e-5, M=M, N=N), grid(K.const, M, N))
            if b.check(K.name, go, Y, want, 2e-3):
                ours.append((K.name, go))
        make = {
            "silu": lambda c, Y: triton_peers.silu(c, X, Y),
            "transpose": lambda c, Y: triton_peers.transpose(c, X, Y),
        }.get(what, lambda c, Y: triton_peers.rows(c, what, X, W, Bb, Y))
        Yt = torch.empty((N, M) if turn else (M, N), device=dev, dtype=dt)
        tri = [
            (n, g(Yt))
            for n, g in triton(
                b,
                what,
                make,
                lambda g: b.check("triton " + what, g(Yt), Yt, want, 2e-3),
                *((what,) if what in ("silu", "transpose") else (what, N)),
            )
        ]
        del f
        # the ceiling is a copy's rate; PyTorch and Triton stand beside it
        b.row(
            f"{what} {T} {M}x{N}",
            2 * X.numel() * X.element_size(),
            "TB/s",
            [("copy", lambda: Z.copy_(X))],
            ours,
            must,
            beside=[("torch", eager_row(what, X, W, Bb))] + tri,
        )

    return case


def rms_vector(b):
    N = 1 << 20
    X, W = torch.randn(N, device=dev), torch.randn(N, device=dev)
    Y = torch.empty_like(X)
    ours = []
    for K in b.named("rmsv_scale"):
        S = b.kernel("rmsv_sum" + K.name[len("rmsv_scale") :])
        P = K.const["P"]
        part = torch.empty(P, device=dev)
        s = S.plan(dict(X=X, PART=part, N=N, P=P), (P,))
        c = K.plan(dict(X=X, W=W, PART=part, Y=Y, eps=1e-5, N=N, P=P), (cdiv(N, K.const["BLOCK"]),))

        def go(s=s, c=c):
            s()
            c()

        if b.check(
            K.name,
            go,
            Y,
            lambda: X.double() * torch.rsqrt(X.double().pow(2).mean() + 1e-5) * W.double(),
            1e-5,
        ):
            ours.append((K.name, go))
    b.row(
        "rms_norm of one vector of 2^20 f32",
        0,
        "us",
        [("torch", lambda: F.rms_norm(X, (N,), W, 1e-5))],
        ours,
        20,
    )


def column(b):
    M, N = 32768, 4096
    X = torch.randn(M, N, device=dev)
    Y = torch.empty(M, device=dev)
    ours = [
        (K.name, K.plan(dict(X=X, Y=Y, M=M, N=N), (cdiv(M, K.const.get("TM", 256)),)))
        for K in b.named("column")
    ]
    ours = [(n, g) for n, g in ours if b.check(n, g, Y, lambda: X[:, 0], 0)]
    b.row("first column of 32768x4096 f32", 0, "us", [("torch", lambda: Y.copy_(X[:, 0]))], ours)


def pool(b):
    B, C, H, W = 32, 64, 224, 224
    X = randn(B, C, H, W)
    Y = torch.empty(B, C, H // 2, W // 2, device=dev, dtype=torch.float16)
    ours = []
    for K in b.named("pool"):
        go = K.plan(
            dict(X=X, Y=Y, B=B, C=C, H=H, W=W, P=H // 2, Q=W // 2),
            (cdiv(W // 2, K.const["TQ"]), cdiv(H // 2, K.const["TP"]), B * C),
        )
        if b.check(K.name, go, Y, lambda: F.max_pool2d(X, 3, 2, 1), 0):
            ours.append((K.name, go))
    b.row(
        "max pool 3x3/2 32x64x224x224 f16",
        (X.numel() + Y.numel()) * 2,
        "TB/s",
        [("torch", lambda: F.max_pool2d(X, 3, 2, 1))],
        ours,
        3,
    )
