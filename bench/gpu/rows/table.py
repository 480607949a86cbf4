"""The rows of the table: (name of the case, function of a harness.Bench). A case asks for kernels by the name
of its row (Bench.named): NAME is the configuration that counts, NAME.x are others beside it."""

import torch
import engines
from attention import attention_rows, bias, causal_mask, cross, decode, flex_alibi, flex_bias, flex_cap
from attention import mask_causal, mask_window, sinks, slopes, variant, window_work, P8, RAGGED, SMALL
from harness import cdiv
from products import conv, conv_small, fused, gemm, gemm_int4, gemm_w8
from products import peer_fp8, peer_fp8_fast, peer_i8, peer_tf32
from streams import column, pool, rms_vector, stream

BHN = lambda ns: [(max(1, 32768 // n) if n >= 8192 else 4, 32, 32, n, n) for n in ns]
ROWS = [(4, 32, 32, n, n) for n in (1024, 2048, 4096, 8192)] + [(2, 32, 32, 16384, 16384)]
cube = lambda *n: [(x, x, x) for x in n]

CASES = [
    ("attn.ac128", attention_rows(128, True, ROWS, "ac128", SMALL)),
    ("attn.af128", attention_rows(128, False, ROWS, "af128", SMALL)),
    ("attn.ac64", attention_rows(64, True, ROWS, "ac64", SMALL)),
    ("attn.af64", attention_rows(64, False, ROWS, "af64", SMALL)),
    ("attn.bf16", attention_rows(128, True, ROWS[2:3], "acb128", SMALL, T="bf16")),
    ("attn.gqa", attention_rows(128, True, [(4, 32, 8, 8192, 8192)], "ac128", SMALL)),
    ("attn.d96", attention_rows(96, True, [(4, 32, 32, 8192, 8192)], "ac96", SMALL)),
    ("attn.d256", attention_rows(256, True, [(4, 16, 16, 8192, 8192)], "ac256", SMALL)),
    (
        "attn.ragged",
        attention_rows(
            128, False, [(4, 32, 32, 4095, 4095), (4, 32, 32, 1000, 1000)], "af128r", SMALL + RAGGED
        ),
    ),
    ("attn80.c128", attention_rows(128, True, ROWS[2:4], "ac128_80", SMALL, must=0.9, peer="fa2")),
    ("attn80.f128", attention_rows(128, False, ROWS[2:3], "af128_80", SMALL, must=0.9, peer="fa2")),
    ("attn80.c64", attention_rows(64, True, ROWS[2:3], "ac64_80", SMALL, must=0.9, peer="fa2")),
    (
        "var.window",
        variant(
            "attn_window",
            128,
            P8,
            mask=lambda p: lambda i, j: mask_window(0, 0, i, j),
            flex_mods=lambda a: dict(mask_mod=mask_window),
            work=window_work,
            small=SMALL + [(1, 1, 1, 2048, 2048)],
        ),
    ),
    (
        "var.softcap",
        variant(
            "attn_softcap",
            128,
            P8,
            extra=lambda *a: dict(cap=20.0),
            score=lambda s, a, b, h, i, j: 20.0 * torch.tanh(s / 20.0),
            mask=lambda p: causal_mask,
            flex_mods=flex_cap,
        ),
    ),
    (
        "var.alibi",
        variant(
            "attn_alibi",
            128,
            P8,
            extra=slopes,
            score=lambda s, a, b, h, i, j: s - a["SLOPE"][h].double() * (i - j).abs(),
            mask=lambda p: causal_mask,
            flex_mods=flex_alibi,
        ),
    ),
    (
        "var.bias",
        variant(
            "attn_bias",
            128,
            (2, 16, 16, 4096, 4096),
            extra=bias,
            score=lambda s, a, b, h, i, j: s + a["BIAS"][b, h].double(),
            flex_mods=flex_bias,
            work=lambda B, H, M, N, D: 4 * B * H * M * N * D,
        ),
    ),
    (
        "var.sink",
        variant(
            "attn_sink",
            128,
            P8,
            extra=sinks,
            mask=lambda p: causal_mask,
            sink=True,
            flex_mods=lambda a: dict(mask_mod=mask_causal),
        ),
    ),
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
    (
        "gemm.skinny",
        gemm(
            "gemm_skinny",
            [(16, 4096, 4096), (1, 4096, 4096)],
            small=((16, 512, 1024), (1, 256, 256)),
            must=None,
        ),
    ),
    (
        "gemm.small",
        gemm(
            "gemm_small",
            [(256, 256, 8192), (256, 256, 16384), (64, 2048, 8192), (128, 4096, 4096), (128, 4096, 16384)],
            small=((72, 64, 2048), (128, 256, 64)),
        ),
    ),
    (
        "gemm.fp8",
        gemm(
            "gemm_fp8",
            cube(8192),
            T="f8e4m3",
            tb=True,
            must=0.9,
            peer=peer_fp8,
            bound=5e-4,
            small=((512, 768, 384), (1024, 1024, 2048)),
        ),
    ),
    (
        "gemm.fp8_fast",
        gemm(
            "gemm_fp8_fast",
            cube(8192),
            T="f8e4m3",
            tb=True,
            must=0.9,
            peer=peer_fp8_fast,
            bound=2e-3,
            small=((512, 768, 384), (1024, 1024, 2048)),
        ),
    ),
    (
        "gemm.i8",
        gemm(
            "gemm_i8",
            cube(4096),
            T="i8",
            TO="i32",
            tb=True,
            must=0.9,
            peer=peer_i8,
            bound=0,
            small=((512, 768, 384), (1024, 1024, 2048)),
        ),
    ),
    ("gemm.tf32", gemm("gemm_tf32", cube(4096), T="f32", TO="f32", tb=True, must=0.9, peer=peer_tf32)),
    ("gemm.int4", gemm_int4()),
    ("gemm.w8", gemm_w8("w8", "i8")),
    ("gemm.w8f", gemm_w8("w8f", "f8e4m3")),
    ("gemm.fused", fused),
    ("conv", conv),
    ("conv.small", conv_small),
    (
        "s.silu",
        stream(
            "silu",
            "silu",
            (32768, 4096),
            grid=lambda c, M, N: (cdiv(N, c.get("TN", 512)), cdiv(M, c.get("TM", 4))),
        ),
    ),
    ("s.softmax", stream("softmax", "softmax", (32768, 4096))),
    ("s.rms", stream("rms", "rms", (32768, 4096))),
    ("s.layer", stream("layer", "layer", (32768, 4096))),
    (
        "s.silu1009",
        stream(
            "silu1009",
            "silu",
            (131072, 1009),
            grid=lambda c, M, N: (cdiv(N, c.get("TN", 512)), cdiv(M, c.get("TM", 4))),
        ),
    ),
    (
        "s.silu65536",
        stream(
            "silu65536",
            "silu",
            (2048, 65536),
            grid=lambda c, M, N: (cdiv(N, c.get("TN", 512)), cdiv(M, c.get("TM", 4))),
        ),
    ),
    ("s.softmax1009", stream("softmax1009", "softmax", (131072, 1009))),
    ("s.rms1009", stream("rms1009", "rms", (131072, 1009))),
    ("s.layer1009", stream("layer1009", "layer", (131072, 1009))),
    ("s.softmax65536", stream("softmax65536", "softmax", (2048, 65536))),
    ("s.rms65536", stream("rms65536", "rms", (2048, 65536))),
    ("s.layer65536", stream("layer65536", "layer", (2048, 65536))),
    (
        "s.transpose",
        stream(
            "transpose",
            "transpose",
            (8192, 8192),
            T="f32",
            grid=lambda c, M, N: (cdiv(N, c["TN"]), cdiv(M, c["TM"])),
            must=0.92,
        ),
    ),
    (
        "s.transpose1",
        stream(
            "transpose1",
            "transpose",
            (8191, 8193),
            T="f32",
            grid=lambda c, M, N: (cdiv(N, c["TN"]), cdiv(M, c["TM"])),
            must=0.92,
        ),
    ),
    ("rms_vector", rms_vector),
    ("column", column),
    ("pool", pool),
] + engines.CASES
