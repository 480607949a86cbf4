"""What each pass buys, by leaving it out.

    python3 ladder.py list kernels.txt >ladder.txt    the kernels it wants, for gen.sh
    sh gen.sh DIR ladder.txt
    python3 ladder.py DIR                             runs them beside each other and prints the two tables of
                                                      bench/results/h100.md

A kernel that comes out the same without a pass (the cubins are equal) is not run: the table's place stays
empty."""

import math, os, sys

# The modules lie in a folder of their own, since random.py here would hide Python's own.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows")

# What is left out: name, words, arguments of gen.
RUNGS = [
    ("roles", "warp roles with TMA and wgmma (portable path, same tiles)", "no:warp-specialization"),
    ("exp2", "exp2 (scale folded: one fma and one exp2 an element)", "skip:exp2"),
    ("overlap", "overlap of products with arithmetic", "no:software-pipelining"),
    ("tile-scheduler", "static tile scheduler (programs by stride)", "no:tile-scheduler"),
    ("persistent", "persistent grid, and with it the tile scheduler", "no:persistent"),
    ("order", "order (heavy first, groups that fit L2)", "no:program-order"),
    ("lazy", "lazy rescale", "no:lazy-rescale"),
    ("pingpong", "pingpong (three warpgroups)", "no:pingpong"),
    ("bulk", "bulk-store (results staged and stored by TMA)", "skip:bulk-store"),
    ("narrow", "narrow (32-bit indices)", "skip:narrow"),
    ("mask", "mask-branch (masks in edge steps only)", "skip:mask-branch"),
    ("remap", "remap (raster in bands)", "skip:remap"),
    ("pipeline", "multistage (copies asynchronous, several on their way)", "skip:multistage"),
    ("reciprocal", "reciprocal (rows divided once)", "skip:reciprocal"),
    ("ahead", "fragment-prefetch (operands read a step before)", "skip:fragment-prefetch"),
    ("swizzle", "swizzle (of conversions through shared memory)", "skip:swizzle"),
]
COLUMNS = ["ac128", "af128", "ac64", "gemm", "ac128_80", "gemm80"]
# Passes that these leave alone, each on a kernel that has it: kernel, name, words, arguments.
SINGLES = [
    (
        "attn_alibi",
        "across",
        "cross-tile-pipelining: ALiBi, causal D128, N 8192",
        "skip:cross-tile-pipelining",
    ),
    (
        "attn_softcap",
        "across",
        "cross-tile-pipelining: soft-cap, causal D128, N 8192",
        "skip:cross-tile-pipelining",
    ),
    (
        "differential",
        "issue",
        "products issued when their operands are there (interleave.c): differential attention, "
        "causal D64/128, N 8192",
        "schedule:loop_1_plain",
    ),
    ("gelu", "erfc", "erfc: GEMM + bias + GELU 4096", "skip:erfc"),
    ("gelu", "bulk", "bulk-store: GEMM + bias + GELU 4096", "skip:bulk-store"),
    ("gemm_small", "split", "split (8 CTAs a tile): GEMM 256 x 256 x 8192", "skip:split-k"),
    ("softmax65536", "cluster", "cluster (a row by 8 CTAs): softmax 2048 x 65536, TB/s", "skip:cluster"),
    ("gemm8k", "multicast", "multicast, pairs of programs (hint cluster = 2): GEMM 8192", "skip:multicast"),
]
OWN = {  # kernels that kernels.txt has under other names, or has not
    "differential": "attention_differential attention_differential cuda:sm_90a D=64 DV=128 TM=128 TN=64 "
    "div:M=128 div:N=128 pos:scale",
    "gemm8k": "=gemm.c",
}


def listing(path):
    have = dict(l.rstrip("\n").split(" ", 1) for l in open(path) if l.strip() and not l.startswith("#"))

    def line(k):
        v = OWN.get(k, "=" + k)
        return have[v[1:]] if v.startswith("=") else v

    for k in dict.fromkeys(COLUMNS + [s[0] for s in SINGLES]):
        print(k, line(k))
    for k in COLUMNS:
        for name, _, args in RUNGS:
            print(f"{k}.no-{name} {line(k)} {args}")
    for k, name, _, args in SINGLES:
        print(f"{k}.no-{name} {line(k)} {args}")


def run(d):
    import torch, torch.nn.functional as F
    import attention, harness, products, streams, triton_peers
    from common import dev, randn
    from harness import cdiv

    triton_peers.tuned = lambda *k: None

    class Ladder(harness.Bench):
        def named(self, prefix):
            read = lambda n: open(f"{self.dir}/{n}.cubin", "rb").read()
            ks = [k for k in super().named(prefix) if k]
            return [
                k
                for k in ks
                if k.name == prefix or (k.name.startswith(prefix + ".no-") and read(k.name) != read(prefix))
            ]

    b = Ladder(d)

    def gelu(b):
        def plan(K, m, n, k):
            a = dict(
                A=randn(m, k),
                B=randn(k, n),
                BIAS=randn(n),
                C=torch.empty(m, n, device=dev, dtype=torch.float16),
                M=m,
                N=n,
                K=k,
            )
            return K.plan(a, (cdiv(m, K.const["TM"]), cdiv(n, K.const["TN"]))), a

        ours = []
        for K in b.named("gelu"):
            go, a = plan(K, 512, 768, 320)
            if b.check(
                K.name,
                go,
                a["C"],
                lambda: F.gelu(a["A"].double() @ a["B"].double() + a["BIAS"].double()),
                2e-3,
            ):
                ours.append((K.name, plan(K, 4096, 4096, 4096)[0]))
        b.row("gelu", 2 * 4096**3, "TFLOPS", [], ours)

    def differential(b):
        D, DV, lam = 64, 128, 0.3

        def plan(K, B, H, N):
            q, k, v = randn(B, H, 2, N, D), randn(B, H, 2, N, D), randn(B, H, N, DV)
            o = torch.empty(B, H, N, DV, device=dev, dtype=torch.float16)
            return (
                K.plan(
                    dict(
                        Q=q,
                        K=k,
                        V=v,
                        O=o,
                        scale=1 / math.sqrt(D),
                        **{"lambda": lam},
                        B=B,
                        H=H,
                        M=N,
                        N=N,
                        D=D,
                        DV=DV,
                    ),
                    (cdiv(N, K.const["TM"]), H, B),
                ),
                q,
                k,
                v,
                o,
            )

        def want(q, k, v):
            p = lambda j: torch.softmax(
                (q[:, :, j].double() @ k[:, :, j].double().transpose(-1, -2) / math.sqrt(D)).masked_fill(
                    ~torch.ones(q.shape[3], q.shape[3], dtype=torch.bool, device=dev).tril(), -math.inf
                ),
                -1,
            )
            return (p(0) - lam * p(1)) @ v.double()

        ours = []
        for K in b.named("differential"):
            go, q, k, v, o = plan(K, 2, 3, 512)
            if b.check(K.name, go, o, lambda: want(q, k, v), 3e-3):
                ours.append((K.name, plan(K, 2, 16, 8192)[0]))
        b.row("differential", 2 * 16 * 8192**2 * (2 * D + 2 * DV), "TFLOPS", [], ours)

    four = [(4, 32, 32, 4096, 4096)]
    small = attention.SMALL[:2]
    todo = [
        attention.attention_rows(128, True, four, "ac128", small),
        attention.attention_rows(128, False, four, "af128", small),
        attention.attention_rows(64, True, four, "ac64", small),
        products.gemm("gemm", [(4096, 4096, 4096)]),
        attention.attention_rows(128, True, four, "ac128_80", small, peer="fa2"),
        products.gemm("gemm80", [(4096, 4096, 4096)]),
        attention.variant(
            "attn_alibi",
            128,
            attention.P8,
            extra=attention.slopes,
            score=lambda s, a, bb, h, i, j: s - a["SLOPE"][h].double() * (i - j).abs(),
            mask=lambda p: attention.causal_mask,
            small=small,
        ),
        attention.variant(
            "attn_softcap",
            128,
            attention.P8,
            extra=lambda *a: dict(cap=20.0),
            score=lambda s, a, bb, h, i, j: 20.0 * torch.tanh(s / 20.0),
            mask=lambda p: attention.causal_mask,
            small=small,
        ),
        differential,
        gelu,
        products.gemm("gemm_small", [(256, 256, 8192)], small=((128, 256, 640),)),
        streams.stream("softmax65536", "softmax", (2048, 65536)),
        products.gemm("gemm8k", [(8192, 8192, 8192)]),
    ]
    rate, peer = {}, {}
    for case in todo:
        try:
            case(b)
        except Exception as x:
            print("CASE FAILED", str(x)[:300], flush=True)
        torch.cuda.empty_cache()
    ours = set(COLUMNS) | {k for k, *_ in SINGLES}
    for _, t, work, _, _ in b.rows:
        for name, ms in t.items():
            if name.split(".")[0] in ours:
                rate[name] = work / ms / 1e9
        best = [work / ms / 1e9 for name, ms in t.items() if name.split(".")[0] not in ours]
        if best:
            peer[next(n for n in t if n in ours)] = max(best)

    def show(v):
        return "" if v is None else f"{v:.0f}" if v >= 10 else f"{v:.2f}"

    print("\n| left out | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    print(
        "| nothing (cuDNN, cuBLAS, FlashAttention-2: "
        + ", ".join(show(peer.get(c)) for c in COLUMNS)
        + ") | "
        + " | ".join(show(rate.get(c)) for c in COLUMNS)
        + " |"
    )
    for name, words, _ in RUNGS:
        print(f"| {words} | " + " | ".join(show(rate.get(f"{c}.no-{name}")) for c in COLUMNS) + " |")
    print("\n| pass, and where | without | with |\n|---|---|---|")
    for k, name, words, _ in SINGLES:
        print(f"| {words} | {show(rate.get(f'{k}.no-{name}'))} | {show(rate.get(k))} |")
    print(f"\n{torch.cuda.get_device_name(0)}, torch {torch.__version__}")


if __name__ == "__main__":
    if sys.argv[1] == "list":
        listing(sys.argv[2])
    else:
        run(sys.argv[1])
