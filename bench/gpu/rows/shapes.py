"""Rows for shapes of the caller's own: kernels as a user launches them, configured by the library itself.

    python3 bench.py --lib=libtile.so --kernels=examples/kernels --gemm=3000x5000x2000 \
        --attention=B2H16M3000N3000D128causal --softmax=32768x4096 ...

--gemm=MxNxK[:bf16|:f32|:f8e4m3|:i8][:nt|:tn|:tt][:exact][:pad=P]
    against cuBLAS (f32: tf32, or exact products; f8e4m3 and i8: as cuBLAS takes them, :nt). pad: rows of A, B
    and C lie P elements further apart than they are long.
--grouped=E8M4096N4096K2048
    M rows of E matrices, as many each as chance gives, bf16, against torch._grouped_mm
--gelu, --residual, --gated=MxNxK[:bf16]
    fused epilogues, against PyTorch eager (--inductor: and its Inductor); beside it the product alone
--attention=B2H16[HK4]M3000[N4000]D128[causal|lower][:bf16][:bshd|:packed]
    against cuDNN, FlashAttention-2, and FlashAttention-4 where it is installed. causal: query i sees keys 0 ..
    i; lower: aligned at the end, keys 0 .. i + N - M. bshd: tensors lie as B, M, H, D in memory; packed: as
    slices of one B, M, H + 2 HK, D.
--sequences=H32[HK8]D128[causal][W1024][:bf16]:4096x4+1000+1[:backward]
    attention over packed sequences of unequal length (4096x4: four of 4096; 100/4096: of 100 queries on 4096
    keys, causal aligned at the end), against FlashAttention-4 and PyTorch's FlashAttention-2. backward: its
    gradients, against FlashAttention-4
--append=B16H32HK8D128M1N8192[:bf16]
    M new tokens go into caches that hold N then, and attend to them, against a copy and cuDNN
--backward=B2H16[HK4]M3000D128[causal][:bf16][:ordered]
    attention's backward pass, against cuDNN and FlashAttention-4. ordered: the same bits in every run
--window, --softcap, --alibi, --sink, --bias=B2H16[HK4]M3000D128[W1024][C20][full][:bf16][:heads|:batch]
    against FlexAttention, compiled; beside it cuDNN (bias) and FlashAttention-2 (window). W: of windows, C:
    of caps; a bias is the same for all heads, or for the batch.
--softmax, --rms, --layer, --silu, --transpose=MxN[:f32]
    against a copy; beside it PyTorch
--conv=B32C256H56F256[R3][S1][:bf16]
    channels last, R x R taps, stride S, against cuDNN's NHWC; beside it its NCHW

Each may be given several times. A line says what was chosen.
--table: take FILE.tune beside FILE.tile too (default: no table, so that the choice is the library's own)
--declared: also what the source declares
--off-cache: neither read nor write the disk cache
"""

import math, os, re, traceback
import torch
import torch.nn.functional as F
import fa4, gradients, harness, packed
from attention import heads
from common import DT, eager_row
from libtile import AS_DECLARED, NO_CACHE, Library

TO = {"f8e4m3": "f16", "i8": "i32"}


def random(M, N, T, pad=0, turned=False):
    """A matrix of random values, its rows `pad` elements further apart than they are long; turned: the
    transpose of such a matrix."""
    m, n = (N, M) if turned else (M, N)
    x = torch.randn(m, n + pad, device="cuda")
    x = x.mul(4).round().clamp(-9, 9).to(torch.int8) if T == "i8" else x.to(DT[T])
    return x[:, :n].T if turned else x[:, :n]


def numbers(text):
    return [int(x) for x in text.split("x")]


def error(o, r):
    return float((o.double() - r.double()).norm() / r.double().norm().clamp_min(1e-30))


class Rows:
    """b: harness.Bench; libs: [(name, Library)]"""

    def __init__(self, b, libs, inductor=False):
        self.b, self.libs, self.inductor = b, libs, inductor

    def row(self, what, text):
        """One row of the family `what` by its text, as bench.py's arguments give both."""
        if what in ("gemm", "grouped", "attention", "conv"):
            getattr(self, what)(text)
        elif what == "backward":
            gradients.backward(self, text)
        elif what == "sequences":
            packed.row(self, text)
        elif what == "append":
            packed.append(self, text)
        elif what in FUSED:
            self.fused(what, text)
        elif what in VARIANTS:
            self.variant(what, text)
        else:
            self.stream(what, text)

    def show(self, title, work, unit, peers, kernel, args, out, want, bound, must, beside=()):
        ours = []
        for label, lib in self.libs:
            try:
                go, said = kernel(lib).plan(*args)
            except Exception as x:
                print(f"{title}: {label}: {x}", flush=True)
                continue
            if self.b.check(f"{title} {label}", go, out, want, bound):
                ours.append((label, go))
                print(f"{title}: {label}: {said}", flush=True)
        self.b.row(title, work, unit, peers, ours, must, beside=beside)

    def gemm(self, text):
        shape, *rest = text.split(":")
        M, N, K = numbers(shape)
        T = next((x for x in rest if x in DT), "f16")
        turned = next((x for x in rest if re.fullmatch("[nt][nt]", x)), "nn")
        exact = "exact" in rest
        pad = next((int(x[4:]) for x in rest if x.startswith("pad=")), 0)
        A = random(M, K, T, pad, turned[0] == "t")
        B = random(K, N, T, pad, turned[1] == "t")
        to = TO.get(T, T)
        out, theirs = (
            torch.empty(M, N + pad, device="cuda", dtype={"i32": torch.int32}.get(to) or DT[to])[:, :N]
            for _ in range(2)
        )
        one = torch.ones((), device="cuda")
        tf32 = torch.backends.cuda.matmul.allow_tf32 = T == "f32" and not exact
        peer = {
            "f8e4m3": lambda: torch._scaled_mm(A, B, one, one, out_dtype=out.dtype),
            "i8": lambda: torch._int_mm(A, B),
        }.get(T) or (lambda: torch.matmul(A, B, out=theirs))
        bind = dict(T=T, TO=to, **({"TF32": "true"} if tf32 else {"ACC": "i32"} if T == "i8" else {}))
        self.show(
            f"gemm {'exact ' if exact else ''}{T} {turned} {M}x{N}x{K}{f' pad {pad}' if pad else ''}",
            2 * M * N * K,
            "TFLOPS",
            [("cublas", peer)],
            lambda l: l.kernel("gemm", "gemm", **bind),
            (A, B, out),
            out,
            lambda: A.double() @ B.double() if T in ("f32", "i8") else A.float() @ B.float(),
            8e-3 if T == "bf16" else 2e-3,
            0.95 if T in ("f16", "bf16") else 0.9,
        )

    def fused(self, what, text):
        shape, *rest = text.split(":")
        M, N, K = numbers(shape)
        T = rest[0] if rest else "f16"
        A, B, U, out = (
            random(M, K, T) / 8,
            random(K, N, T),
            random(K, N, T),
            torch.empty(M, N, device="cuda", dtype=DT[T]),
        )
        bias, R, S = random(1, N, T)[0], random(M, N, T), torch.randn(M, device="cuda")
        name, args, eager, want, times = {
            "gelu": (
                "gemm_bias_gelu",
                (A, B, bias, out),
                lambda: F.gelu(A @ B + bias),
                lambda: F.gelu(A.float() @ B.float() + bias.float()),
                1,
            ),
            "residual": (
                "gemm_residual",
                (A, B, S, R, out),
                lambda: (A @ B) * S[:, None].to(DT[T]) + R,
                lambda: (A.float() @ B.float()) * S[:, None] + R.float(),
                1,
            ),
            "gated": (
                "gemm_gated",
                (A, B, U, out),
                lambda: F.silu(A @ B) * (A @ U),
                lambda: F.silu(A.float() @ B.float()) * (A.float() @ U.float()),
                2,
            ),
        }[what]
        plain = (lambda: A @ B) if times == 1 else (lambda: (A @ B, A @ U))
        peers = [("eager", eager)]
        if self.inductor:
            from products import compiled

            peers.append(("inductor", compiled(eager)))
        beside = [("product alone", plain)]
        if times == 1:
            beside.append(
                (
                    "ours alone",
                    self.libs[0][1].kernel("gemm", "gemm", T=T, TO=T).plan(A, B, torch.empty_like(out))[0],
                )
            )
        self.show(
            f"{what} {T} {M}x{N}x{K}",
            2 * times * M * N * K,
            "TFLOPS",
            peers,
            lambda l: l.kernel(name, name, T=T),
            args,
            out,
            want,
            8e-3 if T == "bf16" else 2e-3,
            1.0,
            beside=beside,
        )

    def grouped(self, text):
        m = re.fullmatch(r"E(\d+)M(\d+)N(\d+)K(\d+)", text)
        if not m:
            raise RuntimeError(f"--grouped=E8M4096N4096K2048, not {text}")
        E, M, N, K = (int(x) for x in m.groups())
        dt, dev = torch.bfloat16, "cuda"
        sizes = torch.bincount(
            (torch.rand(M, device=dev) ** 1.5 * E).long().clamp_max(E - 1), minlength=E
        ).tolist()
        ends = torch.tensor(sizes, device=dev).cumsum(0).to(torch.int32)
        A, W, out = (
            random(M, K, "bf16"),
            torch.randn(E, K, N, device=dev, dtype=dt),
            torch.empty(M, N, device=dev, dtype=dt),
        )
        start = F.pad(ends, (1, 0))
        T = -(-M // 128) + E
        plan = [torch.empty(T, device=dev, dtype=torch.int32) for _ in range(3)]

        class Two:  # which tile takes which rows, then the products
            def __init__(self, l):
                self.first, self.second = l.kernel(
                    "gemm_grouped", "gemm_grouped_plan", E1=E + 1, TM=128
                ), l.kernel("gemm_grouped", "gemm_grouped", T="bf16", TM=128)

            def plan(self, *args):
                (p, _), (g, said) = self.first.plan(start, *plan), self.second.plan(*args)

                def go():
                    p()
                    g()

                return go, said

        peers = (
            [("torch", lambda: torch._grouped_mm(A, W, offs=ends))] if hasattr(torch, "_grouped_mm") else []
        )
        self.show(
            f"grouped bf16 {E} of {M} rows, {N}x{K}",
            2 * M * N * K,
            "TFLOPS",
            peers,
            Two,
            (A, W, *plan, out),
            out,
            lambda: torch.cat([x.float() @ w.float() for x, w in zip(A.split(sizes), W)]),
            8e-3,
            0.9,
        )

    def attention(self, text):
        from torch.nn.attention import sdpa_kernel, SDPBackend
        from torch.nn.attention.bias import causal_lower_right

        m = re.fullmatch(r"B(\d+)H(\d+)(?:HK(\d+))?M(\d+)(?:N(\d+))?D(\d+)(causal|lower)?((?::\w+)*)", text)
        if not m:
            raise RuntimeError(
                f"--attention=B2H16[HK4]M3000[N4000]D128[causal|lower][:bf16][:bshd|:packed], not {text}"
            )
        B, H, M, D = (int(m[i]) for i in (1, 2, 4, 6))
        HK, N, mask, rest = int(m[3] or H), int(m[5] or M), m[7] or "full", m[8].split(":")[1:]
        T = next((x for x in rest if x in DT), "f16")
        held = next((x for x in rest if x not in DT), "")
        scale = D**-0.5
        if held not in ("", "bshd", "packed") or (held == "packed" and M != N):
            raise RuntimeError(f"{text}: bshd, or packed with as many queries as keys")
        if held == "packed":
            q, k, v = (
                x.transpose(1, 2)
                for x in torch.randn(B, M, H + 2 * HK, D, device="cuda").to(DT[T]).split((H, HK, HK), 2)
            )
        else:
            q, k, v = (
                torch.randn(*((B, n, h, D) if held else (B, h, n, D)), device="cuda").to(DT[T])
                for h, n in ((H, M), (HK, N), (HK, N))
            )
        if held == "bshd":
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o = (
            torch.empty(B, M, H, D, device="cuda", dtype=DT[T]).transpose(1, 2)
            if held
            else torch.empty_like(q)
        )

        def sdpa(be):
            def go():
                with sdpa_kernel(be):
                    return F.scaled_dot_product_attention(
                        q,
                        k,
                        v,
                        attn_mask=causal_lower_right(M, N) if mask == "lower" else None,
                        is_causal=mask == "causal",
                        enable_gqa=H != HK,
                    )

            return go

        peers = []
        for name, be in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("fa2", SDPBackend.FLASH_ATTENTION)):
            try:
                sdpa(be)()
                torch.cuda.synchronize()
                peers.append((name, sdpa(be)))
            except Exception as x:
                print(f"{name}: {str(x)[:100]}", flush=True)
        if mask != "lower":
            peers += fa4.forward(q, k, v, scale, mask == "causal")
        seen = (
            None
            if mask == "full"
            else torch.arange(M, device="cuda")[:, None] + (N - M if mask == "lower" else 0)
            >= torch.arange(N, device="cuda")[None]
        )

        def want():  # as many heads at a time as there is room for their scores
            r = torch.empty(B, H, M, D, device="cuda")
            some = max(1, min(H, (1 << 28) // (M * N)))
            for b in range(B):
                for h in range(0, H, some):
                    hk = torch.arange(h, min(H, h + some), device="cuda") * HK // H
                    s = q[b, h : h + some].float() @ k[b, hk].float().mT * scale
                    if seen is not None:
                        s.masked_fill_(~seen, -math.inf)
                    r[b, h : h + some] = torch.nan_to_num(torch.softmax(s, -1)) @ v[b, hk].float()
            return r

        pairs = (
            M * N
            if mask == "full"
            else sum(max(0, min(N, i + 1 + (N - M if mask == "lower" else 0))) for i in range(M))
        )
        kernel = (
            (lambda l: l.kernel("attention_cross", "attention_cross", T=T))
            if mask == "lower"
            else lambda l: l.kernel(
                "attention", "attention", T=T, CAUSAL="true" if mask == "causal" else "false"
            )
        )
        self.show(
            f"attention {T} {mask} D{D} B{B} {heads(H, HK)} M{M} N{N}{' ' + held if held else ''}",
            4 * B * H * D * pairs,
            "TFLOPS",
            peers,
            kernel,
            (q, k, v, o, scale),
            o,
            want,
            8e-3 if T == "bf16" else 2e-3,
            1.0,
        )

    def variant(self, what, text):
        import attention
        from torch.nn.attention import sdpa_kernel, SDPBackend

        m = re.fullmatch(
            r"B(\d+)H(\d+)(?:HK(\d+))?M(\d+)D(\d+)(?:W(\d+))?(?:C(\d+))?(full)?((?::\w+)*)", text
        )
        if not m:
            raise RuntimeError(
                f"--{what}=B2H16[HK4]M3000D128[W1024][C20][full][:bf16][:heads|:batch], not {text}"
            )
        B, H, M, D = (int(m[i]) for i in (1, 2, 4, 5))
        HK, W, cap, causal, rest = (
            int(m[3] or H),
            int(m[6] or 1024),
            float(m[7] or 20),
            not m[8] and what != "bias",
            m[9].split(":")[1:],
        )
        T = next((x for x in rest if x in DT), "f16")
        scale = D**-0.5
        q, k, v = (torch.randn(B, h, M, D, device="cuda").to(DT[T]) for h in (H, HK, HK))
        o = torch.empty_like(q)
        dev = "cuda"
        slope = torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], device=dev)
        sink = torch.randn(H, device=dev)
        bias = None
        if what == "bias":
            bias = (
                torch.randn(1 if "batch" in rest else B, 1 if "heads" in rest else H, M, M, device=dev)
                .to(DT[T])
                .expand(B, H, M, M)
            )

        def seen(b, h, i, j):
            return (i >= j) & (i - j < W) if "window" in what else i >= j

        masked = causal or "window" in what
        change = {
            "softcap": lambda s, b, h, i, j: cap * torch.tanh(s / cap),
            "alibi": lambda s, b, h, i, j: s - slope[h] * (i - j).abs(),
            "bias": lambda s, b, h, i, j: s + bias[b, h, i, j],
        }.get(what)

        def want():
            r, i, j = (
                torch.empty(B, H, M, D, device=dev),
                torch.arange(M, device=dev)[:, None],
                torch.arange(M, device=dev)[None],
            )
            for b in range(B):
                for h in range(H):
                    s = q[b, h].float() @ k[b, h * HK // H].float().T * scale
                    if change:
                        s = s + bias[b, h].float() if what == "bias" else change(s, b, h, i, j)
                    if masked:
                        s.masked_fill_(~seen(b, h, i, j), -math.inf)
                    if "sink" in what:
                        s = torch.cat([s, sink[h].expand(M, 1)], 1)
                    r[b, h] = torch.softmax(s, -1)[:, :M] @ v[b, h * HK // H].float()
            return r

        pairs = (
            sum(min(i + 1, W) for i in range(M))
            if "window" in what
            else M * (M + 1) // 2 if causal else M * M
        )
        more = {"alibi": (slope,), "sink": (sink,), "sink_window": (sink,), "bias": (bias,)}.get(what, ())
        last = (scale, cap) if what == "softcap" else (scale,)
        bind = dict(T=T, **({"WINDOW": W} if "window" in what else {"CAUSAL": "true" if causal else "false"}))
        name = "attention_" + what.replace("sink_window", "sink")
        peers, beside = [], []
        try:
            peers.append(("flex", attention.flex(what + text, q, k, v, change, seen if masked else None)))
        except Exception as x:
            print(f"flex: {str(x)[:160]}", flush=True)

        def flash(**more):
            a = [x.transpose(1, 2) for x in (q, k, v)]
            return lambda: torch.ops.aten._flash_attention_forward(
                *a, None, None, M, M, 0.0, causal or "window" in what, False, scale=scale, **more
            )

        def cudnn():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=H != HK)

        for peer, go in {
            "window": [("fa2", flash(window_size_left=W - 1, window_size_right=0))],
            "bias": [("cudnn", cudnn)],
        }.get(what, []):
            try:
                go()
                torch.cuda.synchronize()
                beside.append((peer, go))
            except Exception as x:
                print(f"{peer}: {str(x)[:100]}", flush=True)
        title = f"{what}{W if 'window' in what else ''} {T} {'causal' if masked else 'full'}"
        if what == "softcap":
            title += f" cap {cap:g}"
        title += f" D{D} B{B} {heads(H, HK)} M{M}" + "".join(f" over {x}" for x in rest if x not in DT)
        self.show(
            title,
            4 * B * H * D * pairs,
            "TFLOPS",
            peers,
            lambda l: l.kernel(name, name, **bind),
            (q, k, v) + more + (o,) + last,
            o,
            want,
            8e-3 if T == "bf16" else 2e-3,
            1.3,
            beside=beside,
        )

    def conv(self, text):
        m = re.fullmatch(r"B(\d+)C(\d+)H(\d+)F(\d+)(?:R(\d+))?(?:S(\d+))?(?::(\w+))?", text)
        if not m:
            raise RuntimeError(f"--conv=B32C256H56F256[R3][S1][:bf16], not {text}")
        B, C, H, N = (int(m[i]) for i in (1, 2, 3, 4))
        R, S, T = int(m[5] or 3), int(m[6] or 1), m[7] or "f16"
        pad = R // 2
        P = (H + 2 * pad - R) // S + 1
        last = torch.channels_last
        x, w = torch.randn(B, C, H, H, device="cuda").to(DT[T]), (
            torch.randn(N, C, R, R, device="cuda") / 16
        ).to(DT[T])
        xl, wl = x.to(memory_format=last), w.to(memory_format=last)
        y = torch.empty(B, P, P, N, device="cuda", dtype=DT[T])
        torch.backends.cudnn.benchmark = True
        harness.beat("cudnn benchmark", 60)
        self.show(
            f"conv {T} {R}x{R}/{S} B{B} C{C} {H}x{H} F{N}",
            2 * B * P * P * N * C * R * R,
            "TFLOPS",
            [("cudnn nhwc", lambda: F.conv2d(xl, wl, padding=pad, stride=S))],
            lambda l: l.kernel("conv2d", "conv2d_nhwc", T=T, STRIDE=S, PAD=pad),
            (xl.permute(0, 2, 3, 1), wl.permute(0, 2, 3, 1), y),
            y,
            lambda: F.conv2d(x.float(), w.float(), padding=pad, stride=S).permute(0, 2, 3, 1),
            8e-3 if T == "bf16" else 2e-3,
            0.8,
            beside=[("cudnn nchw", lambda: F.conv2d(x, w, padding=pad, stride=S))],
        )

    def stream(self, what, text):
        shape, *rest = text.split(":")
        M, N = numbers(shape)
        T = rest[0] if rest else "f32" if what == "transpose" else "f16"
        dt = DT[T]
        X, W, Bb = (
            torch.randn(M, N, device="cuda").to(dt),
            torch.randn(N, device="cuda").to(dt),
            torch.randn(N, device="cuda").to(dt),
        )
        turn = what == "transpose"
        Y, Z = torch.empty((N, M) if turn else (M, N), device="cuda", dtype=dt), torch.empty_like(X)
        want = {
            "silu": lambda: F.silu(X.float()),
            "softmax": lambda: torch.softmax(X.float(), -1),
            "rms": lambda: F.rms_norm(X.float(), (N,), W.float(), 1e-5),
            "layer": lambda: F.layer_norm(X.float(), (N,), W.float(), Bb.float(), 1e-5),
            "transpose": lambda: X.T,
        }[what]
        # A LayerNorm of rows that the shared memory of eight CTAs does not hold is another kernel.
        long = "_long" if N * X.element_size() > 8 * 227 * 1024 else ""
        file, name = {
            "silu": ("silu", "silu"),
            "softmax": ("softmax", "softmax"),
            "rms": ("rms_norm_matrix", "rms_norm_matrix"),
            "layer": ("layer_norm", "layer_norm" + long),
            "transpose": ("transpose", "transpose"),
        }[what]
        more = {"rms": (W,), "layer": (W, Bb)}.get(what, ())
        self.show(
            f"{what} {T} {M}x{N}",
            2 * X.numel() * X.element_size(),
            "TB/s",
            [("copy", lambda: Z.copy_(X))],
            lambda l: l.kernel(file, name, T=T),
            (X,) + more + (Y,) + ((1e-5,) if more else ()),
            Y,
            want,
            8e-3 if T == "bf16" else 2e-3,
            0.92 if turn else 0.95,
            beside=[("torch", eager_row(what, X, W, Bb))],
        )


FUSED, VARIANTS = ("gelu", "residual", "gated"), ("window", "softcap", "alibi", "sink", "bias", "sink_window")
WORDS = (
    FUSED
    + VARIANTS
    + ("gemm", "grouped", "attention", "sequences", "backward", "conv", "softmax", "rms", "layer", "silu")
    + ("append", "transpose")
)


def wanted(argv):
    return [a[2:].split("=", 1) for a in argv if re.match(r"--(" + "|".join(WORDS) + ")=", a)]


def option(argv, name, otherwise):
    return next((a.split("=", 1)[1] for a in argv if a.startswith(f"--{name}=")), otherwise)


def rows_of(b, argv):
    """The rows of the libraries that the options name."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    path = option(argv, "lib", os.path.join(root, "build", "release", "runtime", "libtile.so"))
    kernels = option(argv, "kernels", os.path.join(root, "examples", "kernels"))
    flags = NO_CACHE if "--off-cache" in argv else 0
    libs = [("tile", Library(path, kernels, "--table" in argv, flags))]
    if "--declared" in argv:
        libs.append(("declared", Library(path, kernels, False, flags | AS_DECLARED)))
    return Rows(b, libs, "--inductor" in argv)


def try_row(rows, what, text):
    """A row that fails is reported, and the others run."""
    try:
        rows.row(what, text)
    except Exception as x:
        traceback.print_exc(limit=4)
        print("CASE FAILED", what, text, str(x)[:300], flush=True)
    torch.cuda.empty_cache()


def run(b, argv):
    rows = rows_of(b, argv)
    for what, text in wanted(argv):
        try_row(rows, what, text)
