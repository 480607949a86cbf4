"""bench.py: runs generated kernels on a GPU beside PyTorch's peers: checks each result against float64 (or float32 for large
problems), then medians of L2-flushed runs.

usage: bench.py DIR      kernels are DIR/NAME.cubin + DIR/NAME.json, as gen.sh writes them; DIR/list.json says what each is and the
problems to run: {"gemm": [{"name", "TM", "TN"}], "gemm_rows": [[M, N, K]], "attention": [{"name", "TM", "D", "causal", "ragged"?}],
"attention_rows": [[B, H, HK, M, N]], "streams": [{"name", "what", "M", "N", "T", "grid"}]}"""
import sys, os, ctypes, json, math, threading, time
import torch

BEAT = [time.time(), "start"]
def beat(w): BEAT[0] = time.time(); BEAT[1] = w
def dog():
    while True:
        time.sleep(1)
        if time.time() - BEAT[0] > 40: print("HANG in", BEAT[1], flush=True); os._exit(3)
threading.Thread(target=dog, daemon=True).start()

cu = ctypes.CDLL("libcuda.so.1")
torch.zeros(1, device="cuda")
NSM = torch.cuda.get_device_properties(0).multi_processor_count
def ck(r, w=""):
    if r: raise RuntimeError(f"CUDA error {r} {w}")

TMAP_TYPE = {"u8": 0, "i8": 0, "bool": 0, "f8e4m3": 0, "f8e5m2": 0, "u16": 1, "u32": 2, "i32": 3, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}

class Kernel:
    def __init__(self, d, name, ragged=False):
        self.name, self.ragged = name, ragged
        self.meta = json.load(open(f"{d}/{name}.json"))
        m, f = ctypes.c_void_p(), ctypes.c_void_p()
        ck(cu.cuModuleLoad(ctypes.byref(m), f"{d}/{name}.cubin".encode()), "load " + name)
        ck(cu.cuModuleGetFunction(ctypes.byref(f), m, self.meta["name"].encode()))
        self.f = f
        if self.meta["shared"] > 48 * 1024: ck(cu.cuFuncSetAttribute(f, 8, self.meta["shared"]), "shared memory")
        n = ctypes.c_int()
        ck(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(n), f, self.meta["threads"], ctypes.c_size_t(self.meta["shared"])))
        self.per_sm = n.value
    def plan(self, args, grid):
        """args: parameter name -> tensor or number, dims by name; grid: extents"""
        keep, ptrs = [], []
        for s in self.meta["slots"]:
            k, a = s["kind"], args.get(s["param"])
            if k == "data": v = ctypes.c_uint64(a.data_ptr())
            elif k == "extent": v = ctypes.c_int64(args[s["dim"]])
            elif k == "stride": v = ctypes.c_int64(a.stride(s["index"]))
            elif k == "scalar": v = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int, "index": ctypes.c_int64}[s["dtype"]](a)
            elif k == "grid": v = ctypes.c_int64(grid[s["index"]])
            elif k == "tickets": v = torch.zeros(2, dtype=torch.int32, device="cuda"); keep.append(v); v = ctypes.c_uint64(v.data_ptr())
            elif k == "map":
                m = self.meta["maps"][s["index"]]; t = args[m["param"]]; n = m["rank"]
                raw = ctypes.create_string_buffer(256); at = (ctypes.addressof(raw) + 63) & ~63
                dims = [t.shape[x] for x in m["axes"]]; strides = [t.stride(x) * t.element_size() for x in m["axes"]][1:]
                ck(cu.cuTensorMapEncodeTiled(ctypes.c_void_p(at), TMAP_TYPE[m["dtype"]], n, ctypes.c_void_p(t.data_ptr()), (ctypes.c_uint64 * n)(*dims), (ctypes.c_uint64 * max(1, n - 1))(*strides),
                    (ctypes.c_uint32 * n)(*m["box"]), (ctypes.c_uint32 * n)(*([1] * n)), 0, SWIZZLE[m["swizzle"]], 3, 0), "map")
                keep.append(raw); ptrs.append(at); continue
            else: raise RuntimeError(k)
            keep.append(v); ptrs.append(ctypes.addressof(v))
        arr = (ctypes.c_void_p * len(ptrs))(*ptrs)
        total = math.prod(grid)
        blocks = min(total, NSM * self.per_sm) if self.meta["persistent"] else total
        def go(keep=(keep, args)):
            r = cu.cuLaunchKernel(self.f, blocks, 1, 1, self.meta["threads"], 1, 1, self.meta["shared"], ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), arr, None)
            if r: raise RuntimeError(f"launch {r}")
        return go

flush = torch.empty(64 << 20, dtype=torch.int8, device="cuda")
def median(fn, n=15):
    for _ in range(3): fn()
    ev = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(n)]
    for a, b in ev:
        flush.zero_(); a.record(); fn(); b.record()
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in ev)[n // 2]

def rounds(named, n=3):
    """name -> median over n rounds, in alternating order: peers and kernels meet the same clocks"""
    got = {k: [] for k, _ in named}
    for r in range(n):
        for k, f in named if r % 2 == 0 else named[::-1]:
            beat(k)
            try: got[k].append(median(f))
            except Exception as x: got[k].append(math.inf); print(k, x, flush=True)
            time.sleep(0.01)
    return {k: sorted(v)[n // 2] for k, v in got.items()}

def cdiv(a, b): return -(-a // b)
DT = {"f16": torch.float16, "bf16": torch.bfloat16}

def reference(q, k, v, causal, scale):
    B, H, M, D = q.shape; o = torch.empty(B, H, M, D, dtype=torch.float32, device="cuda"); N = k.shape[2]; G = H // k.shape[1]
    for b in range(B):
        for h in range(H):
            for r in range(0, M, 4096):
                s = (q[b, h, r:r+4096].double() @ k[b, h // G].double().T) * scale
                if causal: s.masked_fill_(torch.arange(N, device="cuda")[None] > torch.arange(r, min(M, r + 4096), device="cuda")[:, None], -math.inf)
                o[b, h, r:r+4096] = (torch.softmax(s, -1) @ v[b, h // G].double()).float()
    return o

def attention_args(B, H, HK, M, N, D, dt):
    mk = lambda h, n: torch.randn(B, h, n, D, device="cuda", dtype=dt)
    return mk(H, M), mk(HK, N), mk(HK, N)

def run_attention(kernels, rows):
    from torch.nn.attention import sdpa_kernel, SDPBackend
    for K, tm, D, causal, dt in kernels:
        for B, H, HK, M, N in ((2, 3, 3, 512, 512), (1, 4, 2, 384, 384), (1, 2, 2, 128, 128), (1, 2, 2, 640, 640), (1, 2, 2, 1000, 1000)):
            if M % 128 and not K.ragged: continue      # generated for extents that are multiples of 128
            q, k, v = attention_args(B, H, HK, M, N, D, dt); o = torch.full_like(q, float("nan"))
            beat(K.name + " check"); sc = 1 / math.sqrt(D)
            try:
                K.plan(dict(Q=q, K=k, V=v, O=o, scale=sc, B=B, H=H, HK=HK, M=M, N=N, D=D), (cdiv(M, tm), H, B))(); torch.cuda.synchronize()
                r = reference(q, k, v, causal, sc); e = float((o.float() - r).norm() / r.norm())
            except Exception as x: e = str(x)
            if not (isinstance(e, float) and e < 1e-3 * (8 if dt == torch.bfloat16 else 1)): print("FAIL", K.name, (B, H, HK, M, N), e, flush=True); K.bad = True; break
        else: print("ok", K.name, f"{e:.1e}", flush=True)
    for (B, H, HK, M, N) in rows:
        for D in sorted({x[2] for x in kernels}):
            for causal in (True, False):
                ks = [x for x in kernels if x[2] == D and x[3] == causal and not getattr(x[0], "bad", False)]
                if not ks: continue
                q, k, v = attention_args(B, H, HK, M, N, D, torch.float16); o = torch.empty_like(q); sc = 1 / math.sqrt(D)
                fl = 4 * B * H * M * N * D * (0.5 if causal else 1); out = []
                def peer(be):
                    def go():
                        with sdpa_kernel(be): torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=HK != H)
                    return go
                named = [("cudnn", peer(SDPBackend.CUDNN_ATTENTION)), ("fa2", peer(SDPBackend.FLASH_ATTENTION))]
                for K, tm, _, _, dt in ks:
                    if dt == torch.float16: named.append((K.name, K.plan(dict(Q=q, K=k, V=v, O=o, scale=sc, B=B, H=H, HK=HK, M=M, N=N, D=D), (cdiv(M, tm), H, B))))
                out = [f"{n} {fl / t / 1e9:.0f}" for n, t in rounds(named).items()]
                print(f"B{B} H{H} M{M} N{N} D{D} {'causal' if causal else 'full'}: " + "  ".join(out), flush=True)

def run_gemm(kernels, rows):
    for K, tm, tn, tb in kernels:
        for M, N, Kd in ((512, 768, 320), (1024, 1024, 2048), (256, 256, 64)):
            a = torch.randn(M, Kd, device="cuda", dtype=torch.float16); b = torch.randn(Kd, N, device="cuda", dtype=torch.float16); c = torch.full((M, N), float("nan"), device="cuda", dtype=torch.float16)
            beat(K.name + " check")
            try:
                K.plan(dict(A=a, B=b, C=c, M=M, N=N, K=Kd), (cdiv(M, tm), cdiv(N, tn)))(); torch.cuda.synchronize(); r = a.double() @ b.double(); e = float((c.double() - r).norm() / r.norm())
            except Exception as x: e = str(x)
            if not (isinstance(e, float) and e < 1e-3): print("FAIL", K.name, (M, N, Kd), e, flush=True); K.bad = True; break
        else: print("ok", K.name, f"{e:.1e}", flush=True)
    for M, N, Kd in rows:
        a = torch.randn(M, Kd, device="cuda", dtype=torch.float16); b = torch.randn(Kd, N, device="cuda", dtype=torch.float16); c = torch.empty(M, N, device="cuda", dtype=torch.float16)
        fl = 2 * M * N * Kd; named = [("cublas", lambda: torch.matmul(a, b, out=c))]
        for K, tm, tn, tb in kernels:
            if not getattr(K, "bad", False): named.append((K.name, K.plan(dict(A=a, B=b, C=c, M=M, N=N, K=Kd), (cdiv(M, tm), cdiv(N, tn)))))
        out = [f"{n} {fl / t / 1e9:.0f}" for n, t in rounds(named).items()]
        print(f"gemm {M}x{N}x{Kd}: " + "  ".join(out), flush=True)

def run_streams(d, items):
    """memory-bound kernels: bytes read and written over time, beside a device copy of the same bytes"""
    for x in items:
        try: K = Kernel(d, x["name"])
        except Exception as e: print("LOAD", x["name"], e); continue
        M, N = x["M"], x["N"]; dt = DT.get(x.get("T"), torch.float32)
        X = torch.randn(M, N, device="cuda", dtype=dt); W = torch.randn(N, device="cuda", dtype=dt); Bb = torch.randn(N, device="cuda", dtype=dt)
        turn = x["what"] == "transpose"; Y = torch.full((N, M) if turn else (M, N), float("nan"), device="cuda", dtype=dt); Z = torch.empty_like(X)
        F = torch.nn.functional; f = X.double() if M * N < 1 << 24 else X.float()
        want = {"silu": lambda: F.silu(f), "softmax": lambda: torch.softmax(f, -1), "rms": lambda: f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5) * W.to(f.dtype),
                "layer": lambda: F.layer_norm(f, (N,), W.to(f.dtype), Bb.to(f.dtype), 1e-5), "transpose": lambda: f.T}[x["what"]]
        peers = {"silu": lambda: F.silu(X), "softmax": lambda: torch.softmax(X, -1), "rms": lambda: F.rms_norm(X, (N,), W, 1e-5), "layer": lambda: F.layer_norm(X, (N,), W, Bb, 1e-5), "transpose": lambda: X.T.contiguous()}
        grid = tuple(eval(g, dict(M=M, N=N, cdiv=cdiv)) for g in x["grid"])
        go = K.plan(dict(X=X, W=W, B=Bb, Y=Y, eps=1e-5, M=M, N=N), grid); beat(K.name)
        try: go(); torch.cuda.synchronize(); r = want(); e = float((Y.double() - r.double()).norm() / r.double().norm())
        except Exception as ex: print("FAIL", K.name, ex, flush=True); continue
        if not e < 2e-3: print("FAIL", K.name, e, flush=True); continue
        del r, f; bytes_ = 2 * X.numel() * X.element_size()
        t = rounds([("copy", lambda: Z.copy_(X)), ("torch", peers[x["what"]]), (K.name, go)])
        print(f"{x['what']} {M}x{N}: " + "  ".join(f"{k} {bytes_ / v / 1e9:.2f}" for k, v in t.items()) + f" TB/s, of copy {t['copy'] / t[K.name]:.2f}", flush=True)

def main():
    d = sys.argv[1]; cfg = json.load(open(f"{d}/list.json"))
    g, a = [], []
    for x in cfg["gemm"]:
        try: g.append((Kernel(d, x["name"]), x["TM"], x["TN"], False))
        except Exception as e: print("LOAD", x["name"], e)
    for x in cfg["attention"]:
        try: a.append((Kernel(d, x["name"], x.get("ragged", False)), x["TM"], x["D"], x["causal"], DT[x.get("T", "f16")]))
        except Exception as e: print("LOAD", x["name"], e)
    if a: run_attention(a, [tuple(r) for r in cfg["attention_rows"]])
    if g: run_gemm(g, [tuple(r) for r in cfg["gemm_rows"]])
    run_streams(d, cfg.get("streams", []))
main()
