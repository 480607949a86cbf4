"""The compiler's tuner beside configurations that were found by hand.

    python3 tune.py TILEC KERNELS DIR [PATTERN]

runs `tilec tune` on the problems of bench.py whose titles match, and shows what it finds beside the
configurations that kernels.txt lists by hand and the one that the source declares, all of them from the
tuner's own measurements. Tables go to DIR/KERNEL.tune, the lists to DIR/*.json. The environment's BUDGET:
seconds a problem (default 40)."""

import os, sys

sys.path.pop(0)  # random.py in this folder would hide Python's own
import json, re, subprocess, time


def attention(B, H, N, D, causal, hand, kernel="attention"):
    ins = [f"{x}=random:f16[{B}, {H}, {N}, {D}]:{i}" for i, x in enumerate("QKV")]
    return (
        f"{kernel} {'causal' if causal else 'full'} D{D} B{B} H{H} N{N}",
        kernel,
        kernel,
        ins,
        [f"CAUSAL={str(causal).lower()}", f"scale={D ** -0.5}"],
        4 * B * H * N * N * D * (0.5 if causal else 1),
        hand,
    )


def gemm(M, N, K, hand):
    return (
        f"gemm {M}x{N}x{K}",
        "gemm",
        "gemm",
        [f"A=random:f16[{M}, {K}]:1", f"B=random:f16[{K}, {N}]:2"],
        [],
        2 * M * N * K,
        hand,
    )


def rows(kernel, file, M, N, hand):
    ins = (
        [f"X=random:f16[{M}, {N}]:1"]
        + [f"W=random:f16[{N}]:2"] * ("softmax" not in kernel)
        + [f"B=random:f16[{N}]:3"] * ("layer" in kernel)
    )
    return (f"{kernel} {M}x{N}", file, kernel, ins, ["eps=1e-5"] * ("softmax" not in kernel), 0, hand)


A128, A64C, A64F = ["TM=128, TN=128"], ["TM=192, TN=96", "TM=128, TN=128"], ["TM=192, TN=128"]
G = [
    "TM=128, TN=256, TK=64, STAGES=4, GROUP=16",
    "TM=128, TN=128, TK=64, STAGES=4, GROUP=16",
    "TM=64, TN=64, TK=128, STAGES=4, GROUP=1, persistent=0",
    "TM=64, TN=128, TK=64, STAGES=8, GROUP=16, persistent=0",
]
SKINNY = ["TM=16, TN=64, TK=128, STAGES=4, GROUP=1", "TM=16, TN=32, TK=256, STAGES=4, GROUP=1"]
PROBLEMS = (
    [gemm(n, n, n, G) for n in (512, 1024, 2048, 4096, 8192)]
    + [
        gemm(1536, 1536, 1536, G),
        gemm(3000, 5000, 2048, G),
        gemm(4096, 4096, 1000, G),
        gemm(4096, 4096, 1023, G),
        gemm(16, 4096, 4096, SKINNY),
    ]
    + [
        attention(4, 32, 1024, 128, True, A128),
        attention(4, 32, 4096, 128, True, A128),
        attention(4, 32, 1024, 128, False, A128),
        attention(4, 32, 4096, 128, False, A128),
        attention(4, 32, 1024, 64, True, A64C),
        attention(4, 32, 4096, 64, True, A64C),
        attention(4, 32, 4096, 64, False, A64F),
        attention(2, 8, 512, 128, True, A128),
    ]
    + [
        rows(k, f, m, n, h)
        for k, f in (
            ("softmax", "softmax"),
            ("rms_norm_matrix", "rms_norm_matrix"),
            ("layer_norm", "layer_norm"),
        )
        for m, n, h in ((32768, 4096, [""]), (131072, 1009, [""]))
    ]
    + [
        rows("layer_norm_long", "layer_norm", 2048, 65536, ["TN=16384, warps=16"]),
    ]
    + [
        (f"transpose {m}x{n}", "transpose", "transpose", [f"X=random:f32[{m}, {n}]:1"], [], 0, h)
        for m, n, h in (
            (8192, 8192, ["TM=64, TN=64", "TM=32, TN=64"]),
            (8191, 8193, ["TM=64, TN=64, warps=8", "TM=128, TN=64, warps=4"]),
        )
    ]
    + [("silu 32768x4096", "silu", "silu", ["X=random:f16[32768, 4096]:1"], [], 0, ["TM=4, TN=512"])]
)


def parse(text):
    return dict(x.split("=") for x in text.split(", ") if "=" in x)


def matches(hand, config):
    """Whether a tuned configuration says what the hand-written one says. Hints that neither names count as
    their defaults."""
    h, c = parse(hand), parse(config)
    for d in (h, c):
        d.setdefault("persistent", "1")
        d.setdefault("occupancy", "1")
        d.setdefault("warps", "")
    return h == c


def main():
    tilec, kernels, out = sys.argv[1:4]
    pattern = sys.argv[4] if len(sys.argv) > 4 else ""
    os.makedirs(out, exist_ok=True)
    worse = []
    for title, file, kernel, ins, sets, work, hand in PROBLEMS:
        if not re.search(pattern, title):
            continue
        listing = f"{out}/{title.replace(' ', '_')}.json"
        begin = time.time()
        command = [
            tilec,
            "tune",
            f"{kernels}/{file}.tile",
            f"--kernel={kernel}",
            "--target=cuda",
            f"--budget={os.environ.get('BUDGET', '40')}",
            "-o",
            f"{out}/{file}.tune",
            f"--json={listing}",
        ]
        for x in ins:
            command += ["--in", x]
        for x in sets:
            command += ["--set", x]
        p = subprocess.run(command, capture_output=True, text=True)
        if p.returncode:
            print(f"{title}: exit {p.returncode}\n{p.stderr[-800:]}", flush=True)
            continue
        got = json.load(open(listing))
        count = {
            s: sum(e["state"] == s for e in got) for s in ("timed", "failed", "wrong", "same", "untried")
        }
        size = float(re.search(r"ms +([0-9.]+) GB/s", p.stdout).group(1)) * got[0]["ms"]
        rate = (lambda ms: f"{work / ms / 1e9:.0f}") if work else (lambda ms: f"{size / ms / 1000:.2f}")
        by_hand = []
        for h in hand:
            for e in got:
                c = e
                if c["state"] == "same":
                    c = next((x for x in got if e["reason"].endswith(x["config"])), e)
                if c["ms"] and (matches(h, e["config"]) or (e["default"] and parse(h) == parse(e["config"]))):
                    by_hand.append((c["ms"], c["launches"], h))
                    break
        text = "; ".join(f"{rate(ms)} ({h or 'declared'})" for ms, n, h in by_hand) or "none of them timed"
        declared = next((e["ms"] for e in got if e["default"]), 0)
        print(
            f"{title}: tuned {rate(got[0]['ms'])} {'TFLOPS' if work else 'TB/s'} with {got[0]['config']}; "
            f"by hand {text}; declared {rate(declared) if declared else '-'}; "
            f"{', '.join(f'{n} {s}' for s, n in count.items() if n)}; {time.time() - begin:.0f} s",
            flush=True,
        )
        for e in got:
            if e["state"] in ("failed", "wrong"):
                print(f"    {e['state']}: {e['config']}: {e['reason'][:160]}", flush=True)
        if by_hand and got[0]["ms"] > min(by_hand)[0] * 1.01:
            worse.append(title)
    print("tuned is slower than by hand: " + (", ".join(worse) or "nowhere"))


if __name__ == "__main__":
    main()
