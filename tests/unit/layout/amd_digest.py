#!/usr/bin/env python3
"""Prints the digests of tests/emu/hip_fragments.h from AMD's matrix instruction calculator (github.com/ROCm/amd_matrix_instruction_calculator).

    amd_digest.py path/to/matrix_calculator.py

The digest of a matrix is FNV-1a (64 bit, over 32-bit words) of row, column, register, lowest bit and lane of every element, rows first,
as `--register-layout` lists them; where several lanes hold an element, of each lane in turn.
"""
import re
import subprocess
import sys

CASES = [
    ("cdna2", "v_mfma_f32_32x32x8f16"), ("cdna2", "v_mfma_f32_16x16x16f16"),
    ("cdna2", "v_mfma_f32_32x32x8bf16_1k"), ("cdna2", "v_mfma_f32_16x16x16bf16_1k"),
    ("cdna2", "v_mfma_i32_32x32x8i8"), ("cdna2", "v_mfma_i32_16x16x16i8"),
    ("cdna2", "v_mfma_f32_32x32x2f32"), ("cdna2", "v_mfma_f32_16x16x4f32"), ("cdna2", "v_mfma_f64_16x16x4f64"),
    ("cdna3", "v_mfma_f32_32x32x8_f16"), ("cdna3", "v_mfma_f32_16x16x16_f16"),
    ("cdna3", "v_mfma_f32_32x32x8_bf16"), ("cdna3", "v_mfma_f32_16x16x16_bf16"),
    ("cdna3", "v_mfma_f32_32x32x4_xf32"), ("cdna3", "v_mfma_f32_16x16x8_xf32"),
    ("cdna3", "v_mfma_f32_32x32x2_f32"), ("cdna3", "v_mfma_f32_16x16x4_f32"), ("cdna3", "v_mfma_f64_16x16x4_f64"),
    ("cdna3", "v_mfma_i32_32x32x16_i8"), ("cdna3", "v_mfma_i32_16x16x32_i8"),
    ("cdna3", "v_mfma_f32_32x32x16_fp8_fp8"), ("cdna3", "v_mfma_f32_16x16x32_fp8_fp8"),
    ("cdna3", "v_mfma_f32_32x32x16_bf8_fp8"), ("cdna3", "v_mfma_f32_16x16x32_fp8_bf8"),
    ("rdna3", "v_wmma_f32_16x16x16_f16"), ("rdna3", "v_wmma_f32_16x16x16_bf16"), ("rdna3", "v_wmma_i32_16x16x16_iu8"),
]
CELL = re.compile(r"v(?:\[\d+:)?(\d+)\]?\{(\d+)\}(?:\.\[\d+:(\d+)\])?")    # v1{32}.[31:16], v[1:0]{32}


def digest(calculator, arch, inst, matrix):
    wave = ["-w", "32"] if arch == "rdna3" else []
    out = subprocess.run([sys.executable, calculator, "-a", arch, "-i", inst, "-R", "-" + matrix, "-c", *wave],
                         check=True, capture_output=True, text=True).stdout
    h = 0xCBF29CE484222325
    for line in out.splitlines():
        row, *cells = line.split(",")
        if not row.isdigit():
            continue
        for col, cell in enumerate(cells):
            places = CELL.findall(cell)
            assert places, (inst, matrix, cell)
            for gpr, lane, bit in places:
                for word in (int(row), col, int(gpr), int(bit or 0), int(lane)):
                    h = (h ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


for arch, inst in CASES:
    print(f'{inst:32} ' + " ".join(f"0x{digest(sys.argv[1], arch, inst, m):016x}" for m in "ABD"), flush=True)
