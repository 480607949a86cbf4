"""The rows of the table: problems, references in float64, peers. A case asks for kernels by row name (Bench.named): NAME is the configuration that counts, NAME.x are others beside it."""
import math, time
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
import triton_peers, engines
from bench import cdiv, beat

dev = "cuda"
DT = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn, "i8": torch.int8}
def triton(b, what, make, small, *key):
    """The tuned Triton kernel as a peer, after small(make) said that its results are right: [] where there is none. make(config, ...) gives a launch."""
    c = triton_peers.tuned(*key)
    if not c: return []
    beat("triton " + what, 120)
    try: good = small(lambda *a: make(c, *a))
    except Exception as x: good = print("triton", what, str(x)[:200])
    return [("triton", lambda *a: make(c, *a))] if good else []

def randn(*s, dt=torch.float16): return torch.randn(*s, device=dev, dtype=dt)
def dims(**k): return k

# ---- attention ----------------------------------------------------------------------------------------------------------------

def scores(q, k, sc, score=None, mask=None):
    """float64 scores of one head; score(s, i, j) and mask(i, j) as the variant has them"""
    s = (q.double() @ k.double().T) * sc
    i = torch.arange(q.shape[0], device=dev)[:, None]; j = torch.arange(k.shape[0], device=dev)[None]
    if score: s = score(s, i, j)
    if mask: s = s.masked_fill(~mask(i, j), -math.inf)
    return s

def reference(q, k, v, sc, score=None, mask=None, sink=None):
    B, H, M, D = q.shape; G = H // k.shape[1]; o = torch.empty(B, H, M, v.shape[3], dtype=torch.float64, device=dev)
    for b in range(B):
        for h in range(H):
            s = scores(q[b, h], k[b, h // G], sc, (lambda x, i, j: score(x, b, h, i, j)) if score else None, mask)
            if sink is not None: s = torch.cat([s, sink[h].double().expand(M, 1)], 1)
            p = torch.nan_to_num(torch.softmax(s, -1), 0.0)
            o[b, h] = p[:, :k.shape[2]] @ v[b, h // G].double()
    return o

def sdpa(be, q, k, v, causal):
    def go():
        with sdpa_kernel(be): return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return go

def attend(b, K, problem, extra=lambda *a: {}, score=None, mask=None, sink=None):
    """launches kernel K on a problem (B, H, HK, M, N, D); returns (function, q, k, v, o, args)"""
    B, H, HK, M, N, D = problem; dt = DT[K.const.get("T", "f16")]
    q, k, v = randn(B, H, M, D, dt=dt), randn(B, HK, N, D, dt=dt), randn(B, HK, N, D, dt=dt); o = torch.empty_like(q)
    a = dict(Q=q, K=k, V=v, O=o, scale=1 / math.sqrt(D), B=B, H=H, HK=HK, M=M, N=N, D=D); a.update(extra(B, H, M, N, dt))
    return K.plan(a, (cdiv(M, K.const["TM"]), H, B)), q, k, v, o, a

SMALL = [(2, 3, 3, 512, 512), (1, 4, 2, 384, 384), (1, 2, 2, 128, 128), (1, 2, 2, 640, 640)]
RAGGED = [(1, 2, 2, 1000, 1000), (1, 2, 1, 1009, 1009), (2, 2, 2, 9, 9)]
def right(b, K, D, small, extra=lambda *a: {}, score=None, mask=None, sink=None):
    for p in small:
        go, q, k, v, o, a = attend(b, K, p + (D,), extra)
        ref = lambda: reference(q, k, v, a["scale"], (lambda s, bb, h, i, j: score(s, a, bb, h, i, j)) if score else None, mask(p) if mask else None, a["SINK"] if sink else None)
        if not b.check(f"{K.name} {p}", go, o, ref, 8e-3 if K.const.get("T") == "bf16" else 1e-3): return False
    return True

def causal_mask(i, j): return i >= j

def attention_rows(D, causal, rows, name, small, T="f16", must=1.0, peer="cudnn"):
    def case(b):
        ks = [K for K in b.named(name) if right(b, K, D, small, mask=(lambda p: causal_mask) if causal else None)]
        def check(make):
            q, k, v = randn(2, 4, 512, D), randn(2, 2, 512, D), randn(2, 2, 512, D); o = torch.empty_like(q)
            return b.check(f"triton attention D{D}", make(q, k, v, o, causal), o, lambda: reference(q, k, v, 1 / math.sqrt(D), mask=causal_mask if causal else None), 1e-3)
        tri = triton(b, f"attention D{D}", triton_peers.attention, check, "attention", D, causal) if T == "f16" and peer == "cudnn" else []
        for (B, H, HK, M, N) in rows:
            plans = [attend(b, K, (B, H, HK, M, N, D)) + (K,) for K in ks]
            dt = DT[T]; q, k, v = randn(B, H, M, D, dt=dt), randn(B, HK, N, D, dt=dt), randn(B, HK, N, D, dt=dt)
            work = 4 * B * H * M * N * D * (0.5 if causal else 1)
            b.row(f"attention {T} {'causal' if causal else 'full'} D{D} B{B} H{H}{'/' + str(HK) if HK != H else ''} M{M} N{N}", work, "TFLOPS",
                  [("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, causal))] * (peer == "cudnn") + [("fa2", sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, causal))] + [(n, f(q, k, v, torch.empty_like(q), causal)) for n, f in tri if M % 128 == 0], [(p[6].name, p[0]) for p in plans], must)
    return case

_flex = {}
def flex(key, q, k, v, score_mod=None, mask_mod=None):
    """PyTorch's compiled FlexAttention"""
    from torch.nn.attention.flex_attention import flex_attention, create_block_mask
    beat("compiling flex " + key, 120)
    if "f" not in _flex: _flex["f"] = torch.compile(flex_attention, dynamic=False); torch._dynamo.config.recompile_limit = 1000      # each variant is one more: behind the limit it runs without being compiled
    bm = create_block_mask(mask_mod, None, None, q.shape[2], k.shape[2], device=dev) if mask_mod else None
    go = lambda: _flex["f"](q, k, v, score_mod=score_mod, block_mask=bm, enable_gqa=q.shape[1] != k.shape[1])
    go(); torch.cuda.synchronize()
    return go

def variant(name, D, problem, extra=lambda *a: {}, score=None, mask=None, sink=None, flex_mods=None, cudnn=None, work=None, small=SMALL, must=1.3):
    def case(b):
        B, H, HK, M, N = problem
        ks = [K for K in b.named(name) if right(b, K, D, small, extra, score, mask, sink)]
        plans = [attend(b, K, problem + (D,), extra) + (K,) for K in ks]
        if not plans: return
        q, k, v, a = plans[0][1], plans[0][2], plans[0][3], plans[0][5]
        peers = []
        if flex_mods:
            try: peers.append(("flex", flex(name, q, k, v, **flex_mods(a))))
            except Exception as x: print("flex", name, str(x)[:200])
        if cudnn: peers.append(("cudnn", cudnn(q, k, v, a)))
        w = work(B, H, M, N, D) if work else 4 * B * H * M * N * D * 0.5
        b.row(f"{name} D{D} B{B} H{H}{'/' + str(HK) if HK != H else ''} M{M} N{N}", w, "TFLOPS", peers, [(p[6].name, p[0]) for p in plans], must)
    return case

P8 = (4, 32, 32, 8192, 8192)
def mask_causal(b, h, i, j): return i >= j
WINDOW = 1024
def mask_window(b, h, i, j): return (i >= j) & (i - j < WINDOW)
def slopes(B, H, M, N, dt): return dict(SLOPE=torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], device=dev))
def sinks(B, H, M, N, dt): return dict(SINK=torch.randn(H, device=dev))
def bias(B, H, M, N, dt): return dict(BIAS=randn(B, H, M, N, dt=dt))

def flex_cap(a):
    def f(s, b, h, i, j): return 20.0 * torch.tanh(s / 20.0)
    return dict(score_mod=f, mask_mod=mask_causal)
def flex_alibi(a):
    sl = a["SLOPE"]
    def f(s, b, h, i, j): return s - sl[h] * (i - j).abs()
    return dict(score_mod=f, mask_mod=mask_causal)
def flex_bias(a):
    bi = a["BIAS"]
    def f(s, b, h, i, j): return s + bi[b, h, i, j]
    return dict(score_mod=f)
def window_work(B, H, M, N, D): return 4 * B * H * D * sum(min(i + 1, WINDOW) for i in range(M))

def cross(b):
    P = (4, 32, 32, 2048, 8192); D = 128; M, N = P[3], P[4]
    off = lambda p: (lambda i, j: i + (p[4] - p[3]) >= j)
    ks = [K for K in b.named("attn_cross") if right(b, K, D, [(1, 2, 2, 256, 640), (1, 2, 1, 128, 1024)], mask=off)]
    plans = [attend(b, K, P + (D,)) + (K,) for K in ks]
    if not plans: return
    q, k, v = plans[0][1:4]
    f = flex("cross", q, k, v, mask_mod=lambda bb, h, i, j: i + (N - M) >= j)
    b.row(f"attn_cross D128 B4 H32 M{M} N{N}", 4 * P[0] * P[1] * D * (M * N - M * M / 2), "TFLOPS", [("flex", f)], [(p[6].name, p[0]) for p in plans], 1.3)

def decode(b):
    B, H, HK, N, D = 16, 32, 8, 32768, 128; sc = 1 / math.sqrt(D)
    J = b.kernel("join")
    def plan(K, B, H, HK, N):
        S = J.const["S"]; q = randn(B, H, D); k, v = randn(B, HK, N, D), randn(B, HK, N, D); o = torch.empty_like(q)
        pm, pl, po = torch.empty(B, H, S, device=dev), torch.empty(B, H, S, device=dev), torch.empty(B, H, S, D, device=dev)
        a = K.plan(dict(Q=q, K=k, V=v, PM=pm, PL=pl, PO=po, scale=sc, B=B, H=H, HK=HK, N=N, D=D, S=S), (HK, B, S)); j = J.plan(dict(PM=pm, PL=pl, PO=po, O=o, B=B, H=H, S=S, D=D), (H, B))
        def go(): a(); j()
        return go, q, k, v, o
    ours = []
    for K in b.named("decode"):
        go, q, k, v, o = plan(K, 2, 8, 2, 4096)
        if b.check(K.name, go, o, lambda: reference(q[:, :, None], k, v, sc)[:, :, 0], 2e-3): ours.append((K.name, plan(K, B, H, HK, N)[0]))
    q, k, v = randn(B, H, 1, D), randn(B, HK, N, D), randn(B, HK, N, D)
    b.row(f"decode B{B} H{H}/{HK} N{N}", 2 * B * HK * N * D * 2, "TB/s", [("cudnn", sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, False)), ("fa2", sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, False))], ours, 1.0)

# ---- products -----------------------------------------------------------------------------------------------------------------

def operand(m, n, dt, turned):
    x = torch.randint(-128, 127, (n, m) if turned else (m, n), device=dev, dtype=torch.int8) if dt == torch.int8 else torch.randn(*((n, m) if turned else (m, n)), device=dev).to(dt)
    return x.T if turned else x

def gemm(name, rows, T="f16", TO="f16", ta=False, tb=False, must=0.95, peer=None, small=((512, 768, 320), (1024, 1024, 2048), (256, 256, 64)), bound=1e-3):
    def case(b):
        ks = []
        def plan(K, M, N, Kd):
            A, B = operand(M, Kd, DT[T], ta), operand(Kd, N, DT[T], tb)
            C = torch.empty(M, N, device=dev, dtype=torch.int32 if TO == "i32" else DT[TO])
            return K.plan(dict(A=A, B=B, C=C, M=M, N=N, K=Kd), (cdiv(M, K.const["TM"]), cdiv(N, K.const["TN"]))), A, B, C
        for K in b.named(name):
            for s in small:
                go, A, B, C = plan(K, *s)
                if not b.check(f"{K.name} {s}", go, C, lambda: A.double() @ B.double(), 8e-3 if "bf16" == TO else bound): break
            else: ks.append(K)
        for (M, N, Kd) in rows:
            A, B = operand(M, Kd, DT[T], ta), operand(Kd, N, DT[T], tb)
            C = torch.empty(M, N, device=dev, dtype=torch.int32 if TO == "i32" else DT[TO])
            p = peer(A, B, C) if peer else (lambda: torch.matmul(A, B, out=C))
            def check(make):
                a, w = randn(512, 320), randn(320, 768); out = torch.empty(512, 768, device=dev, dtype=torch.float16)
                return b.check("triton gemm", make(a, w, out), out, lambda: a.double() @ w.double(), 1e-3)
            tri = triton(b, f"gemm {M}x{N}x{Kd}", triton_peers.gemm, check, "gemm", M, N, Kd) if name == "gemm" else []
            b.row(f"gemm {T}{' A^T' if ta else ''}{' B^T' if tb else ''} {M}x{N}x{Kd}", 2 * M * N * Kd, "TFLOPS", [("cublas", p)] + [(n, f(A, B, torch.empty_like(C))) for n, f in tri], [(K.name, plan(K, M, N, Kd)[0]) for K in ks], must)
    return case

# ---- weights of 4 and 8 bits ----------------------------------------------------------------------------------------------------

def gemm_int4(name="int4", rows=((4096, 4096, 4096), (2048, 4096, 4096), (1024, 4096, 4096), (64, 4096, 4096), (16, 4096, 4096), (1, 4096, 4096)), must=0.8):
    """C = A W^T, W of 4 bits in groups of 128: beside products of the same weights as f16, and PyTorch's own for 4 bits (bf16)"""
    def problem(M, N, K, G=128):
        w = torch.randint(0, 16, (N, K), device=dev, dtype=torch.uint8); g = w.view(N, K // G, 2, G // 2)
        s, z = torch.rand(N, K // G, device=dev).to(torch.float16) * 0.02 + 0.01, torch.randint(0, 16, (N, K // G), device=dev).to(torch.float16)
        dense = ((w.half().view(N, K // G, G) - z[:, :, None]) * s[:, :, None]).view(N, K)
        return randn(M, K), (g[:, :, 0] | g[:, :, 1] << 4).reshape(N, K // 2).contiguous(), s, z, dense, w
    def torch_int4(A, w, s, z):
        pack = torch._convert_weight_to_int4pack((w[:, ::2] << 4 | w[:, 1::2]).contiguous(), 8)
        q = torch.stack([s, (8 - z) * s], -1).transpose(0, 1).contiguous().bfloat16(); a = A.bfloat16()
        f = lambda: torch._weight_int4pack_mm(a, pack, 128, q)
        f(); return f
    def plan(k, A, W, s, z, C):
        M, K = A.shape; N = W.shape[0]
        return k.plan(dict(A=A, W=W, SCALE=s, ZERO=z, C=C, M=M, N=N, K=K, KHALF=K // 2, GROUPS=K // 128), (cdiv(M, k.const["TM"]), cdiv(N, k.const["TN"])))
    def case(b):
        good = []
        for k in b.named(name):
            for shape in ((512, 768, 1024), (256, 256, 128), (130, 256, 512)):
                A, W, s, z, dense, w = problem(*shape); C = torch.empty(shape[0], shape[1], device=dev, dtype=torch.float16)
                if not b.check(f"{k.name} {shape}", plan(k, A, W, s, z, C), C, lambda: A.double() @ dense.double().T, 1e-3): break
            else: good.append(k)
        for M, N, K in rows:
            A, W, s, z, dense, w = problem(M, N, K); C = torch.empty(M, N, device=dev, dtype=torch.float16)
            peers = [("cublas f16", lambda: torch.matmul(A, dense.T, out=C))]
            try: peers.append(("torch int4", torch_int4(A, w, s, z)))
            except Exception as x: print("torch int4", str(x)[:200])
            beside = [(k.name, k.plan(dict(A=A, B=dense.T, C=C, M=M, N=N, K=K), (cdiv(M, k.const["TM"]), cdiv(N, k.const["TN"])))) for k in b.named("gemm_nt")] if M >= 128 else []
            few = lambda k: (k.const["TM"] <= 64) == (M <= 64)
            b.row(f"int4 weights {M}x{N}x{K}", 2 * M * N * K if M > 64 else N * K // 2, "TFLOPS" if M > 64 else "TB/s", peers, [(k.name, plan(k, A, W, s, z, C)) for k in good if few(k)], must if M > 64 else None, beside)
    return case

def gemm_w8(name, Q, rows=((4096, 4096, 4096), (1024, 4096, 4096), (64, 4096, 4096), (16, 4096, 4096)), must=0.8):
    def problem(M, N, K):
        w = torch.randint(-128, 128, (N, K), device=dev).to(torch.int8) if Q == "i8" else torch.randn(N, K, device=dev).to(DT[Q])
        return randn(M, K), w, torch.rand(N, device=dev) * 0.02 + 0.01
    def plan(k, A, W, s, C):
        M, K = A.shape; N = W.shape[0]
        return k.plan(dict(A=A, W=W, SCALE=s, C=C, M=M, N=N, K=K), (cdiv(M, k.const["TM"]), cdiv(N, k.const["TN"])))
    def case(b):
        good = []
        for k in b.named(name):
            for shape in ((512, 768, 1024), (256, 256, 128), (130, 256, 384)):
                A, W, s = problem(*shape); C = torch.empty(shape[0], shape[1], device=dev, dtype=torch.float16)
                if not b.check(f"{k.name} {shape}", plan(k, A, W, s, C), C, lambda: A.double() @ (W.double() * s.double()[:, None]).T, 1e-3): break
            else: good.append(k)
        for M, N, K in rows:
            A, W, s = problem(M, N, K); C = torch.empty(M, N, device=dev, dtype=torch.float16); dense = W.half()
            few = lambda k: (k.const["TM"] <= 64) == (M <= 64)
            b.row(f"{Q} weights {M}x{N}x{K}", 2 * M * N * K if M > 64 else N * K, "TFLOPS" if M > 64 else "TB/s", [("cublas f16", lambda: torch.matmul(A, dense.T, out=C))], [(k.name, plan(k, A, W, s, C)) for k in good if few(k)], must if M > 64 else None)
    return case

def peer_fp8(A, B, C, fast=False):
    one = torch.ones((), device=dev)
    return lambda: torch._scaled_mm(A, B, one, one, out_dtype=C.dtype, use_fast_accum=fast)
def peer_fp8_fast(A, B, C): return peer_fp8(A, B, C, True)
def peer_i8(A, B, C): return lambda: torch._int_mm(A, B)
def peer_tf32(A, B, C):
    def go():
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.matmul(A, B, out=C)
    return go

def compiled(f):
    beat("inductor", 120)
    g = torch.compile(f, dynamic=False); g(); torch.cuda.synchronize()
    return g

def fused(b):
    M = N = Kd = 4096
    def both(f): return [("eager", f), ("inductor", compiled(f))]
    A, B = randn(M, Kd), randn(Kd, N); work = 2 * M * N * Kd
    plain = [("plain", K.plan(dict(A=A, B=B, C=torch.empty(M, N, device=dev, dtype=torch.float16), M=M, N=N, K=Kd), (cdiv(M, K.const["TM"]), cdiv(N, K.const["TN"])))) for K in [b.kernel("gemm")] if K]
    def ours(name, args, out, ref):
        got = []
        for K in b.named(name):
            m, n, k = 512, 768, 320; a = args(m, n, k); a.update(M=m, N=n, K=k, C=torch.empty(m, n, device=dev, dtype=torch.float16))
            if b.check(K.name, K.plan(a, (cdiv(m, K.const["TM"]), cdiv(n, K.const["TN"]))), a["C"], lambda: ref(a), 2e-3):
                big = args(M, N, Kd); big.update(A=A, M=M, N=N, K=Kd, C=torch.empty(M, N, device=dev, dtype=torch.float16)); got.append((K.name, K.plan(big, (cdiv(M, K.const["TM"]), cdiv(N, K.const["TN"])))))
        return got
    bi = randn(N)
    t = b.row("gemm + bias + GELU 4096", work, "TFLOPS", both(lambda: F.gelu(A @ B + bi)), ours("gelu", lambda m, n, k: dict(A=randn(m, k), B=randn(k, n), BIAS=randn(n)), None,
              lambda a: F.gelu(a["A"].double() @ a["B"].double() + a["BIAS"].double())) + plain, 1.0)
    r, s = randn(M, N), torch.randn(M, device=dev)
    b.row("gemm, row scale + residual 4096", work, "TFLOPS", both(lambda: (A @ B) * s[:, None].half() + r), ours("resid", lambda m, n, k: dict(A=randn(m, k), B=randn(k, n), S=torch.randn(m, device=dev), R=randn(m, n)), None,
          lambda a: (a["A"].double() @ a["B"].double()) * a["S"].double()[:, None] + a["R"].double()) + plain, 1.0)
    g, u = randn(Kd, N), randn(Kd, N)
    b.row("gated pair 4096", 2 * work, "TFLOPS", both(lambda: F.silu(A @ g) * (A @ u)), ours("gated", lambda m, n, k: dict(A=randn(m, k) / 8, G=randn(k, n), U=randn(k, n)), None,
          lambda a: F.silu(a["A"].double() @ a["G"].double()) * (a["A"].double() @ a["U"].double())), 1.0)

def conv(b):
    """NHWC by one kernel; NCHW by one, or by two, timed together: the input to channels last, then a product whose rows of pixels lie as NCHW has them. Weights have their
    channels last in memory for all but the first of these, as for cuDNN's NHWC."""
    def plan(K, T, B, C, HW, Fn, x, xl, w, wl):
        c = K.const; a = dict(WT=wl.permute(0, 2, 3, 1), B=B, H=HW, W=HW, C=C, F=Fn, R=3, S=3, P=HW, Q=HW, N=HW * HW)
        if K.meta["name"] == "conv2d_nchw":
            y = torch.empty(B, Fn, HW, HW, device=dev, dtype=torch.float16); a.update(X=x, WT=w, Y=y)
            return K.plan(a, (cdiv(HW, c["TQ"]), cdiv(HW, c["TP"]), cdiv(Fn, c["TF"]) * B)), y
        if K.meta["name"] == "conv2d_nhwc":
            y = torch.empty(B, HW, HW, Fn, device=dev, dtype=torch.float16); a.update(X=xl.permute(0, 2, 3, 1), Y=y)
            return K.plan(a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TQ"]) * cdiv(HW, c["TP"]), cdiv(B, c.get("TB", 1)))), y.permute(0, 3, 1, 2)
        y = torch.empty(B, Fn, HW * HW, device=dev, dtype=torch.float16)
        if K.meta["name"] == "conv2d_planes": a.update(X=x, Y=y); return K.plan(a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TP"]), B)), y.view(B, Fn, HW, HW)
        z = torch.empty(B, HW, HW, C, device=dev, dtype=torch.float16); a.update(X=z, Y=y)
        t = T.plan(dict(X=x.view(B, C, HW * HW), Y=z.view(B, HW * HW, C), B=B, C=C, N=HW * HW), (cdiv(HW * HW, T.const["TN"]), cdiv(C, T.const["TC"]), B))
        k = K.plan(a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TP"]) * B))
        def go(): t(); k()
        return go, y.view(B, Fn, HW, HW)
    for (B, C, HW, Fn) in ((32, 32, 32, 64), (32, 256, 56, 256), (128, 128, 28, 128)):
        x, w = randn(B, C, HW, HW), randn(Fn, C, 3, 3) / 16
        xl, wl = x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last)
        peers = [("cudnn nchw", lambda: F.conv2d(x, w, padding=1)), ("cudnn nhwc", lambda: F.conv2d(xl, wl, padding=1))]
        torch.backends.cudnn.benchmark = True; beat("cudnn benchmark", 60)
        for layout in ("nhwc", "nchw"):
            ours = []
            for K, T in [(K, T) for K in b.named("conv_" + layout) for T in (b.named("channels_last") if K.meta["name"] == "conv2d_rows" else [None])]:
                if K.const.get("W", HW) != HW: continue
                go, y = plan(K, T, B, C, HW, Fn, x, xl, w, wl); beat(K.name); y.fill_(float("nan"))
                try: go(); torch.cuda.synchronize(); r = F.conv2d(x[:4].double(), w.double(), padding=1); e = float((y[:4].double() - r).norm() / r.norm()); bad = bool(y.isnan().any())
                except Exception as ex: e, bad = str(ex)[:100], True
                if bad or not e < 1e-3: print("FAIL", K.name, (B, C, HW, Fn), e); continue
                ours.append((K.name + (T.name[len("channels_last"):] if T else ""), go))
            b.row(f"conv2d 3x3 {layout.upper()} N{B} C{C} {HW}x{HW} F{Fn}", 2 * B * HW * HW * Fn * C * 9, "TFLOPS", peers, ours, 0.8)

# ---- streams ------------------------------------------------------------------------------------------------------------------

def stream(name, what, shape, T="f16", grid=lambda c, M, N: (cdiv(M, c.get("ROWS", 1)),), must=0.95):
    def case(b):
        M, N = shape; dt = DT[T]
        X = randn(M, N, dt=dt); W, Bb = randn(N, dt=dt), randn(N, dt=dt)
        turn = what == "transpose"; Z = torch.empty_like(X); f = X.double() if M * N < 1 << 24 else X.float()
        want = {"silu": lambda: F.silu(f), "softmax": lambda: torch.softmax(f, -1), "rms": lambda: f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5) * W.to(f.dtype),
                "layer": lambda: F.layer_norm(f, (N,), W.to(f.dtype), Bb.to(f.dtype), 1e-5), "transpose": lambda: f.T}[what]
        peers = {"silu": lambda: F.silu(X), "softmax": lambda: torch.softmax(X, -1), "rms": lambda: F.rms_norm(X, (N,), W, 1e-5), "layer": lambda: F.layer_norm(X, (N,), W, Bb, 1e-5), "transpose": lambda: X.T.contiguous()}
        ours = []
        for K in b.named(name):
            Y = torch.empty((N, M) if turn else (M, N), device=dev, dtype=dt)
            go = K.plan(dict(X=X, W=W, B=Bb, Y=Y, eps=1e-5, M=M, N=N), grid(K.const, M, N))
            if b.check(K.name, go, Y, want, 2e-3): ours.append((K.name, go))
        make = {"silu": lambda c, Y: triton_peers.silu(c, X, Y), "transpose": lambda c, Y: triton_peers.transpose(c, X, Y)}.get(what, lambda c, Y: triton_peers.rows(c, what, X, W, Bb, Y))
        Yt = torch.empty((N, M) if turn else (M, N), device=dev, dtype=dt)
        tri = [(n, g(Yt)) for n, g in triton(b, what, make, lambda g: b.check("triton " + what, g(Yt), Yt, want, 2e-3), *((what,) if what in ("silu", "transpose") else (what, N)))]
        del f
        # the ceiling is a copy's rate; PyTorch and Triton stand beside it
        b.row(f"{what} {T} {M}x{N}", 2 * X.numel() * X.element_size(), "TB/s", [("copy", lambda: Z.copy_(X))], ours, must, beside=[("torch", peers[what])] + tri)
    return case

def rms_vector(b):
    N = 1 << 20; X, W = torch.randn(N, device=dev), torch.randn(N, device=dev); Y = torch.empty_like(X); ours = []
    for K in b.named("rmsv_scale"):
        S = b.kernel("rmsv_sum" + K.name[len("rmsv_scale"):]); P = K.const["P"]; part = torch.empty(P, device=dev)
        s = S.plan(dict(X=X, PART=part, N=N, P=P), (P,)); c = K.plan(dict(X=X, W=W, PART=part, Y=Y, eps=1e-5, N=N, P=P), (cdiv(N, K.const["BLOCK"]),))
        def go(s=s, c=c): s(); c()
        if b.check(K.name, go, Y, lambda: X.double() * torch.rsqrt(X.double().pow(2).mean() + 1e-5) * W.double(), 1e-5): ours.append((K.name, go))
    b.row("rms_norm of one vector of 2^20 f32", 0, "us", [("torch", lambda: F.rms_norm(X, (N,), W, 1e-5))], ours, 20)

def column(b):
    M, N = 32768, 4096; X = torch.randn(M, N, device=dev); Y = torch.empty(M, device=dev)
    ours = [(K.name, K.plan(dict(X=X, Y=Y, M=M, N=N), (cdiv(M, K.const.get("TM", 256)),))) for K in b.named("column")]
    ours = [(n, g) for n, g in ours if b.check(n, g, Y, lambda: X[:, 0], 0)]
    b.row("first column of 32768x4096 f32", 0, "us", [("torch", lambda: Y.copy_(X[:, 0]))], ours)

def pool(b):
    B, C, H, W = 32, 64, 224, 224; X = randn(B, C, H, W); Y = torch.empty(B, C, H // 2, W // 2, device=dev, dtype=torch.float16); ours = []
    for K in b.named("pool"):
        go = K.plan(dict(X=X, Y=Y, B=B, C=C, H=H, W=W, P=H // 2, Q=W // 2), (cdiv(W // 2, K.const["TQ"]), cdiv(H // 2, K.const["TP"]), B * C))
        if b.check(K.name, go, Y, lambda: F.max_pool2d(X, 3, 2, 1), 0): ours.append((K.name, go))
    b.row("max pool 3x3/2 32x64x224x224 f16", (X.numel() + Y.numel()) * 2, "TB/s", [("torch", lambda: F.max_pool2d(X, 3, 2, 1))], ours, 3)

BHN = lambda ns: [(max(1, 32768 // n) if n >= 8192 else 4, 32, 32, n, n) for n in ns]
ROWS = [(4, 32, 32, n, n) for n in (1024, 2048, 4096, 8192)] + [(2, 32, 32, 16384, 16384)]
cube = lambda *n: [(x, x, x) for x in n]
def conv_small(b):
    """Few programs, long sums: one image or a few, channels last."""
    def plan(K, B, C, HW, Fn, x, w):
        c = K.const; y = torch.empty(B, HW, HW, Fn, device=dev, dtype=torch.float16)
        a = dict(X=x.permute(0, 2, 3, 1), WT=w.permute(0, 2, 3, 1), Y=y, B=B, H=HW, W=HW, C=C, F=Fn, R=3, S=3, P=HW, Q=HW)
        return K.plan(a, (cdiv(Fn, c["TF"]), cdiv(HW, c["TQ"]) * cdiv(HW, c["TP"]), cdiv(B, c.get("TB", 1)))), y.permute(0, 3, 1, 2)
    def tensors(B, C, HW, Fn): return randn(B, C, HW, HW).contiguous(memory_format=torch.channels_last), (randn(Fn, C, 3, 3) / math.sqrt(9 * C)).contiguous(memory_format=torch.channels_last)
    ks = []
    for K in b.named("conv_small"):
        x, w = tensors(2, 192, 13, 128); go, y = plan(K, 2, 192, 13, 128, x, w)
        if b.check(K.name, go, y, lambda: F.conv2d(x.double(), w.double(), padding=1), 2e-3): ks.append(K)
    torch.backends.cudnn.benchmark = True
    for (B, C, HW, Fn) in ((1, 512, 14, 512), (1, 512, 7, 512), (1, 256, 28, 256)):
        x, w = tensors(B, C, HW, Fn)
        b.row(f"conv 3x3 B{B} C{C} {HW}x{HW} F{Fn} NHWC", 2 * B * HW * HW * Fn * C * 9, "TFLOPS", [("cudnn", lambda: F.conv2d(x, w, padding=1))], [(K.name, plan(K, B, C, HW, Fn, x, w)[0]) for K in ks], 0.8)

CASES = [
    ("attn.ac128", attention_rows(128, True, ROWS, "ac128", SMALL)),
    ("attn.af128", attention_rows(128, False, ROWS, "af128", SMALL)),
    ("attn.ac64", attention_rows(64, True, ROWS, "ac64", SMALL)),
    ("attn.af64", attention_rows(64, False, ROWS, "af64", SMALL)),
    ("attn.bf16", attention_rows(128, True, ROWS[2:3], "acb128", SMALL, T="bf16")),
    ("attn.gqa", attention_rows(128, True, [(4, 32, 8, 8192, 8192)], "ac128", SMALL)),
    ("attn.d96", attention_rows(96, True, [(4, 32, 32, 8192, 8192)], "ac96", SMALL)),
    ("attn.d256", attention_rows(256, True, [(4, 16, 16, 8192, 8192)], "ac256", SMALL)),
    ("attn.ragged", attention_rows(128, False, [(4, 32, 32, 4095, 4095), (4, 32, 32, 1000, 1000)], "af128r", SMALL + RAGGED)),
    ("attn80.c128", attention_rows(128, True, ROWS[2:4], "ac128_80", SMALL, must=0.9, peer="fa2")),
    ("attn80.f128", attention_rows(128, False, ROWS[2:3], "af128_80", SMALL, must=0.9, peer="fa2")),
    ("attn80.c64", attention_rows(64, True, ROWS[2:3], "ac64_80", SMALL, must=0.9, peer="fa2")),
    ("var.window", variant("attn_window", 128, P8, mask=lambda p: lambda i, j: mask_window(0, 0, i, j), flex_mods=lambda a: dict(mask_mod=mask_window), work=window_work, small=SMALL + [(1, 1, 1, 2048, 2048)])),
    ("var.softcap", variant("attn_softcap", 128, P8, extra=lambda *a: dict(cap=20.0), score=lambda s, a, b, h, i, j: 20.0 * torch.tanh(s / 20.0), mask=lambda p: causal_mask, flex_mods=flex_cap)),
    ("var.alibi", variant("attn_alibi", 128, P8, extra=slopes, score=lambda s, a, b, h, i, j: s - a["SLOPE"][h].double() * (i - j).abs(), mask=lambda p: causal_mask, flex_mods=flex_alibi)),
    ("var.bias", variant("attn_bias", 128, (2, 16, 16, 4096, 4096), extra=bias, score=lambda s, a, b, h, i, j: s + a["BIAS"][b, h].double(), flex_mods=flex_bias, work=lambda B, H, M, N, D: 4 * B * H * M * N * D)),
    ("var.sink", variant("attn_sink", 128, P8, extra=sinks, mask=lambda p: causal_mask, sink=True, flex_mods=lambda a: dict(mask_mod=mask_causal))),
    ("var.cross", cross),
    ("var.decode", decode),
    ("gemm.f16", gemm("gemm", cube(512, 1024, 2048, 4096, 8192) + [(4096, 14336, 4096)])),
    ("gemm80", gemm("gemm80", cube(4096), must=0.55)),
    ("gemm.bf16", gemm("gemm_bf16", cube(8192), T="bf16", TO="bf16")),
    ("gemm.nt", gemm("gemm_nt", cube(4096), tb=True)),
    ("gemm.tn", gemm("gemm_tn", cube(4096), ta=True)),
    ("gemm.tt", gemm("gemm_tt", cube(4096), ta=True, tb=True)),
    ("gemm.k1000", gemm("gemm_k8", [(4096, 4096, 1000)], small=((512, 768, 1000), (256, 256, 72)))),
    ("gemm.k1023", gemm("gemm_k1", [(4096, 4096, 1023)], small=((512, 768, 1023), (256, 256, 65)), must=0.6)),
    ("gemm.skinny", gemm("gemm_skinny", [(16, 4096, 4096), (1, 4096, 4096)], small=((16, 512, 1024), (1, 256, 256)), must=None)),
    ("gemm.small", gemm("gemm_small", [(256, 256, 8192), (256, 256, 16384), (64, 2048, 8192), (128, 4096, 4096), (128, 4096, 16384)], small=((72, 64, 2048), (128, 256, 64)))),
    ("gemm.fp8", gemm("gemm_fp8", cube(8192), T="f8e4m3", tb=True, must=0.9, peer=peer_fp8, bound=5e-4, small=((512, 768, 384), (1024, 1024, 2048)))),
    ("gemm.fp8_fast", gemm("gemm_fp8_fast", cube(8192), T="f8e4m3", tb=True, must=0.9, peer=peer_fp8_fast, bound=2e-3, small=((512, 768, 384), (1024, 1024, 2048)))),
    ("gemm.i8", gemm("gemm_i8", cube(4096), T="i8", TO="i32", tb=True, must=0.9, peer=peer_i8, bound=0, small=((512, 768, 384), (1024, 1024, 2048)))),
    ("gemm.tf32", gemm("gemm_tf32", cube(4096), T="f32", TO="f32", tb=True, must=0.9, peer=peer_tf32)),
    ("gemm.int4", gemm_int4()),
    ("gemm.w8", gemm_w8("w8", "i8")), ("gemm.w8f", gemm_w8("w8f", "f8e4m3")),
    ("gemm.fused", fused),
    ("conv", conv), ("conv.small", conv_small),
    ("s.silu", stream("silu", "silu", (32768, 4096), grid=lambda c, M, N: (cdiv(N, c.get("TN", 512)), cdiv(M, c.get("TM", 4))))),
    ("s.softmax", stream("softmax", "softmax", (32768, 4096))),
    ("s.rms", stream("rms", "rms", (32768, 4096))),
    ("s.layer", stream("layer", "layer", (32768, 4096))),
    ("s.silu1009", stream("silu1009", "silu", (131072, 1009), grid=lambda c, M, N: (cdiv(N, c.get("TN", 512)), cdiv(M, c.get("TM", 4))))),
    ("s.silu65536", stream("silu65536", "silu", (2048, 65536), grid=lambda c, M, N: (cdiv(N, c.get("TN", 512)), cdiv(M, c.get("TM", 4))))),
    ("s.softmax1009", stream("softmax1009", "softmax", (131072, 1009))),
    ("s.rms1009", stream("rms1009", "rms", (131072, 1009))),
    ("s.layer1009", stream("layer1009", "layer", (131072, 1009))),
    ("s.softmax65536", stream("softmax65536", "softmax", (2048, 65536))),
    ("s.rms65536", stream("rms65536", "rms", (2048, 65536))),
    ("s.layer65536", stream("layer65536", "layer", (2048, 65536))),
    ("s.transpose", stream("transpose", "transpose", (8192, 8192), T="f32", grid=lambda c, M, N: (cdiv(N, c["TN"]), cdiv(M, c["TM"])), must=0.92)),
    ("s.transpose1", stream("transpose1", "transpose", (8191, 8193), T="f32", grid=lambda c, M, N: (cdiv(N, c["TN"]), cdiv(M, c["TM"])), must=0.92)),
    ("rms_vector", rms_vector), ("column", column), ("pool", pool),
] + engines.CASES
