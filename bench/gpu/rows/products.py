"""Rows of matrix products, products with packed weights, fused epilogues and convolutions, against cuBLAS and
cuDNN."""

import math
import torch
import torch.nn.functional as F
import triton_peers
from common import DT, dev, randn, triton
from harness import beat, cdiv


def operand(m, n, dt, turned):
    x = (
        torch.randint(-128, 127, (n, m) if turned else (m, n), device=dev, dtype=torch.int8)
        if dt == torch.int8
        else torch.randn(*((n, m) if turned else (m, n)), device=dev).to(dt)
    )
    return x.T if turned else x


def gemm(
    name,
    rows,
    T="f16",
    TO="f16",
    ta=False,
    tb=False,
    must=0.95,
    peer=None,
    small=((512, 768, 320), (1024, 1024, 2048), (256, 256, 64)),
    bound=1e-3,
):
    def case(b):
        ks = []

        def plan(K, M, N, Kd):
            A, B = operand(M, Kd, DT[T], ta), operand(Kd, N, DT[T], tb)
            C = torch.empty(M, N, device=dev, dtype=torch.int32 if TO == "i32" else DT[TO])
            return (
                K.plan(dict(A=A, B=B, C=C, M=M, N=N, K=Kd), (cdiv(M, K.const["TM"]), cdiv(N, K.const["TN"]))),
                A,
                B,
                C,
            )

        for K in b.named(name):
            for s in small:
                go, A, B, C = plan(K, *s)
                if not b.check(
                    f"{K.name} {s}", go, C, lambda: A.double() @ B.double(), 8e-3 if "bf16" == TO else bound
                ):
                    break
            else:
                ks.append(K)
        for M, N, Kd in rows:
            A, B = operand(M, Kd, DT[T], ta), operand(Kd, N, DT[T], tb)
            C = torch.empty(M, N, device=dev, dtype=torch.int32 if TO == "i32" else DT[TO])
            p = peer(A, B, C) if peer else (lambda: torch.matmul(A, B, out=C))

            def check(make):
                a, w = randn(512, 320), randn(320, 768)
                out = torch.empty(512, 768, device=dev, dtype=torch.float16)
                return b.check("triton gemm", make(a, w, out), out, lambda: a.double() @ w.double(), 1e-3)

            tri = (
                triton(b, f"gemm {M}x{N}x{Kd}", triton_peers.gemm, check, "gemm", M, N, Kd)
                if name == "gemm"
                else []
            )
            b.row(
                f"gemm {T}{' A^T' if ta else ''}{' B^T' if tb else ''} {M}x{N}x{Kd}",
                2 * M * N * Kd,
                "TFLOPS",
                [("cublas", p)] + [(n, f(A, B, torch.empty_like(C))) for n, f in tri],
                [(K.name, plan(K, M, N, Kd)[0]) for K in ks],
                must,
            )

    return case


# ---- weights of 4 and 8 bits -------------------------------------------------------------------------------


def gemm_int4(
    name="int4",
    rows=(
        (4096, 4096, 4096),
        (2048, 4096, 4096),
        (1024, 4096, 4096),
        (64, 4096, 4096),
        (16, 4096, 4096),
        (1, 4096, 4096),
    ),
    must=0.8,
):
    """C = A W^T, W of 4 bits in groups of 128, beside products of the same weights as f16, and PyTorch's own
    for 4 bits
    (bf16)"""

    def problem(M, N, K, G=128):
        w = torch.randint(0, 16, (N, K), device=dev, dtype=torch.uint8)
        g = w.view(N, K // G, 2, G // 2)
        s, z = torch.rand(N, K // G, device=dev).to(torch.float16) * 0.02 + 0.01, torch.randint(
            0, 16, (N, K // G), device=dev
        ).to(torch.float16)
        dense = ((w.half().view(N, K // G, G) - z[:, :, None]) * s[:, :, None]).view(N, K)
        return randn(M, K), (g[:, :, 0] | g[:, :, 1] << 4).reshape(N, K // 2).contiguous(), s, z, dense, w

    def torch_int4(A, w, s, z):
        pack = torch._convert_weight_to_int4pack((w[:, ::2] << 4 | w[:, 1::2]).contiguous(), 8)
        q = torch.stack([s, (8 - z) * s], -1).transpose(0, 1).contiguous().bfloat16()
        a = A.bfloat16()
        f = lambda: torch._weight_int4pack_mm(a, pack, 128, q)
        f()
        return f

    def plan(k, A, W, s, z, C):
        M, K = A.shape
        N = W.shape[0]
        return k.plan(
            dict(A=A, W=W, SCALE=s, ZERO=z, C=C, M=M, N=N, K=K, KHALF=K // 2, GROUPS=K // 128),
            (cdiv(M, k.const["TM"]), cdiv(N, k.const["TN"])),
        )

    def case(b):
        good = []
        for k in b.named(name):
            for shape in ((512, 768, 1024), (256, 256, 128), (130, 256, 512)):
                A, W, s, z, dense, w = problem(*shape)
                C = torch.empty(shape[0], shape[1], device=dev, dtype=torch.float16)
                if not b.check(
                    f"{k.name} {shape}",
                    plan(k, A, W, s, z, C),
                    C,
                    lambda: A.double() @ dense.double().T,
                    1e-3,
                ):
                    break
            else:
                good.append(k)
        for M, N, K in rows:
            A, W, s, z, dense, w = problem(M, N, K)
            C = torch.empty(M, N, device=dev, dtype=torch.float16)
            peers = [("cublas f16", lambda: torch.matmul(A, dense.T, out=C))]
            try:
                peers.append(("torch int4", torch_int4(A, w, s, z)))
            except Exception as x:
                print("torch int4", str(x)[:200])
            beside = (
                [
                    (
                        k.name,
                        k.plan(
                            dict(A=A, B=dense.T, C=C, M=M, N=N, K=K),
                            (cdiv(M, k.const["TM"]), cdiv(N, k.const["TN"])),
                        ),
                    )
                    for k in b.named("gemm_nt")
                ]
                if M >= 128
                else []
            )
            few = lambda k: (k.const["TM"] <= 64) == (M <= 64)
            b.row(
                f"int4 weights {M}x{N}x{K}",
                2 * M * N * K if M > 64 else N * K // 2,
                "TFLOPS" if M > 64 else "TB/s",
                peers,
                [(k.name, plan(k, A, W, s, z, C)) for k in good if few(k)],
                must if M > 64 else None,
                beside,
            )

    return case


def gemm_w8(
    name, Q, rows=((4096, 4096, 4096), (1024, 4096, 4096), (64, 4096, 4096), (16, 4096, 4096)), must=0.8
):
    def problem(M, N, K):
        w = (
            torch.randint(-128, 128, (N, K), device=dev).to(torch.int8)
            if Q == "i8"
            else torch.randn(N, K, device=dev).to(DT[Q])
        )
        return randn(M, K), w, torch.rand(N, device=dev) * 0.02 + 0.01

    def plan(k, A, W, s, C):
        M, K = A.shape
        N = W.shape[0]
        return k.plan(
            dict(A=A, W=W, SCALE=s, C=C, M=M, N=N, K=K), (cdiv(M, k.const["TM"]), cdiv(N, k.const["TN"]))
        )

    def case(b):
        good = []
        for k in b.named(name):
            for shape in ((512, 768, 1024), (256, 256, 128), (130, 256, 384)):
                A, W, s = problem(*shape)
                C = torch.empty(shape[0], shape[1], device=dev, dtype=torch.float16)
                if not b.check(
                    f"{k.name} {shape}",
                    plan(k, A, W, s, C),
                    C,
                    lambda: A.double() @ (W.double() * s.double()[:, None]).T,
                    1e-3,
                ):
                    break
            else:
                good.append(k)
        for M, N, K in rows:
            A, W, s = problem(M, N, K)
            C = torch.empty(M, N, device=dev, dtype=torch.float16)
            dense = W.half()
            few = lambda k: (k.const["TM"] <= 64) == (M <= 64)
            b.row(
                f"{Q} weights {M}x{N}x{K}",
                2 * M * N * K if M > 64 else N * K,
                "TFLOPS" if M > 64 else "TB/s",
                [("cublas f16", lambda: torch.matmul(A, dense.T, out=C))],
                [(k.name, plan(k, A, W, s, C)) for k in good if few(k)],
                must if M > 64 else None,
            )

    return case


def peer_fp8(A, B, C, fast=False):
    one = torch.ones((), device=dev)
    return lambda: torch._scaled_mm(A, B, one, one, out_dtype=C.dtype, use_fast_accum=fast)


def peer_fp8_fast(A, B, C):
    return peer_fp8(A, B, C, True)


def peer_i8(A, B, C):
    return lambda: torch._int_mm(A, B)


def peer_tf32(A, B, C):
    def go():
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.matmul(A, B, out=C)

    return go


def compiled(f):
    beat("inductor", 120)
    g = torch.compile(f, dynamic=False)
    g()
    torch.cuda.synchronize()
    return g


def fused(b):
    M = N = Kd = 4096

    def both(f):
        return [("eager", f), ("inductor", compiled(f))]

    A, B = randn(M, Kd), randn(Kd, N)
    work = 2 * M * N * Kd
    plain = [
        (
            "plain",
            K.plan(
                dict(A=A, B=B, C=torch.empty(M, N, device=dev, dtype=torch.float16), M=M, N=N, K=Kd),
                (cdiv(M, K.const["TM"]), cdiv(N, K.const["TN"])),
            ),
        )
        for K in [b.kernel("gemm")]
        if K
    ]

    def ours(name, args, out, ref):
        got = []
        for K in b.named(name):
            m, n, k = 512, 768, 320
            a = args(m, n, k)
            a.update(M=m, N=n, K=k, C=torch.empty(m, n, device=dev, dtype=torch.float16))
            if b.check(
                K.name,
                K.plan(a, (cdiv(m, K.const["TM"]), cdiv(n, K.const["TN"]))),
                a["C"],
                lambda: ref(a),
                2e-3,
            ):
                big = args(M, N, Kd)
                big.update(A=A, M=M, N=N, K=Kd, C=torch.empty(M, N, device=dev, dtype=torch.float16))
                got.append((K.name, K.plan(big, (cdiv(M, K.const["TM"]), cdiv(N, K.const["TN"])))))
        return got

    bi = randn(N)
    b.row(
        "gemm + bias + GELU 4096",
        work,
        "TFLOPS",
        both(lambda: F.gelu(A @ B + bi)),
        ours(
            "gelu",
            lambda m, n, k: dict(A=randn(m, k), B=randn(k, n), BIAS=randn(n)),
            None,
            lambda a: F.gelu(a["A"].double() @ a["B"].double() + a["BIAS"].double()),
        )
        + plain,
        1.0,
    )
    r, s = randn(M, N), torch.randn(M, device=dev)
    b.row(
        "gemm, row scale + residual 4096",
        work,
        "TFLOPS",
        both(lambda: (A @ B) * s[:, None].half() + r),
        ours(
            "resid",
            lambda m, n, k: dict(A=randn(m, k), B=randn(k, n), S=torch.randn(m, device=dev), R=randn(m, n)),
            None,
            lambda a: (a["A"].double() @ a["B"].double()) * a["S"].double()[:, None] + a["R"].double(),
        )
        + plain,
        1.0,
    )
    g, u = randn(Kd, N), randn(Kd, N)
    b.row(
        "gated pair 4096",
        2 * work,
        "TFLOPS",
        both(lambda: F.silu(A @ g) * (A @ u)),
        ours(
            "gated",
            lambda m, n, k: dict(A=randn(m, k) / 8, G=randn(k, n), U=randn(k, n)),
            None,
            lambda a: F.silu(a["A"].double() @ a["G"].double()) * (a["A"].double() @ a["U"].double()),
        ),
        1.0,
    )


def conv(b):
    """NHWC by one kernel. NCHW by one, or by two that are timed together: the input to channels last, then a
    product whose rows of pixels lie as NCHW has them. Weights have their channels last in memory for all but
    the first of these, as for cuDNN's NHWC."""

    def plan(K, T, B, C, HW, Fn, x, xl, w, wl):
        c = K.const
        a = dict(WT=wl.permute(0, 2, 3, 1), B=B, H=HW, W=HW, C=C, F=Fn, R=3, S=3, P=HW, Q=HW, N=HW * HW)
        if K.meta["name"] == "conv2d_nchw":
            y = torch.empty(B, Fn, HW, HW, device=dev, dtype=torch.float16)
            a.update(X=x, WT=w, Y=y)
            return K.plan(a, (cdiv(HW, c["TQ"]), cdiv(HW, c["TP"]), cdiv(Fn, c["TF"]) * B)), y
        if K.meta["name"] == "conv2d_nhwc":
            y = torch.empty(B, HW, HW, Fn, device=dev, dtype=torch.float16)
            a.update(X=xl.permute(0, 2, 3, 1), Y=y)
            return K.plan(
                a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TQ"]) * cdiv(HW, c["TP"]), cdiv(B, c.get("TB", 1)))
            ), y.permute(0, 3, 1, 2)
        y = torch.empty(B, Fn, HW * HW, device=dev, dtype=torch.float16)
        if K.meta["name"] == "conv2d_planes":
            a.update(X=x, Y=y)
            return K.plan(a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TP"]), B)), y.view(B, Fn, HW, HW)
        z = torch.empty(B, HW, HW, C, device=dev, dtype=torch.float16)
        a.update(X=z, Y=y)
        t = T.plan(
            dict(X=x.view(B, C, HW * HW), Y=z.view(B, HW * HW, C), B=B, C=C, N=HW * HW),
            (cdiv(HW * HW, T.const["TN"]), cdiv(C, T.const["TC"]), B),
        )
        k = K.plan(a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TP"]) * B))

        def go():
            t()
            k()

        return go, y.view(B, Fn, HW, HW)

    for B, C, HW, Fn in ((32, 32, 32, 64), (32, 256, 56, 256), (128, 128, 28, 128)):
        x, w = randn(B, C, HW, HW), randn(Fn, C, 3, 3) / 16
        xl, wl = x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last)
        peers = [
            ("cudnn nchw", lambda: F.conv2d(x, w, padding=1)),
            ("cudnn nhwc", lambda: F.conv2d(xl, wl, padding=1)),
        ]
        torch.backends.cudnn.benchmark = True
        beat("cudnn benchmark", 60)
        for layout in ("nhwc", "nchw"):
            ours = []
            for K, T in [
                (K, T)
                for K in b.named("conv_" + layout)
                for T in (b.named("channels_last") if K.meta["name"] == "conv2d_rows" else [None])
            ]:
                if K.const.get("W", HW) != HW:
                    continue
                go, y = plan(K, T, B, C, HW, Fn, x, xl, w, wl)
                beat(K.name)
                y.fill_(float("nan"))
                try:
                    go()
                    torch.cuda.synchronize()
                    r = F.conv2d(x[:4].double(), w.double(), padding=1)
                    e = float((y[:4].double() - r).norm() / r.norm())
                    bad = bool(y.isnan().any())
                except Exception as ex:
                    e, bad = str(ex)[:100], True
                if bad or not e < 1e-3:
                    print("FAIL", K.name, (B, C, HW, Fn), e)
                    continue
                ours.append((K.name + (T.name[len("channels_last") :] if T else ""), go))
            b.row(
                f"conv2d 3x3 {layout.upper()} N{B} C{C} {HW}x{HW} F{Fn}",
                2 * B * HW * HW * Fn * C * 9,
                "TFLOPS",
                peers,
                ours,
                0.8,
            )


def conv_small(b):
    """Few programs, long sums: one image or a few, channels last."""

    def plan(K, B, C, HW, Fn, x, w):
        c = K.const
        y = torch.empty(B, HW, HW, Fn, device=dev, dtype=torch.float16)
        a = dict(
            X=x.permute(0, 2, 3, 1),
            WT=w.permute(0, 2, 3, 1),
            Y=y,
            B=B,
            H=HW,
            W=HW,
            C=C,
            F=Fn,
            R=3,
            S=3,
            P=HW,
            Q=HW,
        )
        return K.plan(
            a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TQ"]) * cdiv(HW, c["TP"]), cdiv(B, c.get("TB", 1)))
        ), y.permute(0, 3, 1, 2)

    def tensors(B, C, HW, Fn):
        return randn(B, C, HW, HW).contiguous(memory_format=torch.channels_last), (
            randn(Fn, C, 3, 3) / math.sqrt(9 * C)
        ).contiguous(memory_format=torch.channels_last)

    ks = []
    for K in b.named("conv_small"):
        x, w = tensors(2, 192, 13, 128)
        go, y = plan(K, 2, 192, 13, 128, x, w)
        if b.check(K.name, go, y, lambda: F.conv2d(x.double(), w.double(), padding=1), 2e-3):
            ks.append(K)
    torch.backends.cudnn.benchmark = True
    for B, C, HW, Fn in ((1, 512, 14, 512), (1, 512, 7, 512), (1, 256, 28, 256)):
        x, w = tensors(B, C, HW, Fn)
        b.row(
            f"conv 3x3 B{B} C{C} {HW}x{HW} F{Fn} NHWC",
            2 * B * HW * HW * Fn * C * 9,
            "TFLOPS",
            [("cudnn", lambda: F.conv2d(x, w, padding=1))],
            [(K.name, plan(K, B, C, HW, Fn, x, w)[0]) for K in ks],
            0.8,
        )
