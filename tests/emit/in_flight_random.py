#!/usr/bin/env python3
"""in_flight_random.py TILEC NVDISASM RANDOM_TEST KIND FIRST COUNT: what in_flight.py looks for, in random kernels.

Kernels of a kind of tile_random_test (`scores`, `products`) from that seed on become code for sm_90a, without
passes and with all, for arguments of which a launch knows that they are aligned. Those whose products read no
registers are passed over. Prints a line for each kernel at fault, and a count; exit status 1 if there is one,
or if no product read registers, 77 where there is no NVRTC.
"""

import os
import re
import subprocess
import sys
import tempfile

import in_flight


def bindings(text: str) -> list:
    """The extents, by the kernel's head, that its text names."""
    head, body = text.split("kernel random(", 1)
    sizes = re.search(r"// sizes: (.*)", head)[1].split()
    return [o for s in sizes if re.search(rf"\b{s.split('=')[0]}\b", body) for o in ("-D", s)]


def faults(tilec: str, nvdisasm: str, source: str, options: list) -> int:
    """How many instructions of the kernel touch what a product in flight uses; -1: none reads registers."""
    command = [tilec, source, "--target=cuda:sm_90a", *options]
    text = subprocess.run([*command, "-o", "-"], capture_output=True, text=True)
    if text.returncode or not re.search(r"wgmma_\w+_rs\w*\(", text.stdout):
        return -1
    cubin = source + ".cubin"
    made = subprocess.run([*command, "--emit=cubin", "-o", cubin], capture_output=True, text=True)
    if "cannot open the run-time compiler" in made.stderr:
        sys.exit(77)
    made.check_returncode()
    code, labels, starts = in_flight.read(nvdisasm, cubin)
    return len(in_flight.follow(code, labels, starts)[0])


def main() -> int:
    tilec, nvdisasm, show, kind, first, count = sys.argv[1:]
    tested = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "k.tile")
        for seed in range(int(first), int(first) + int(count)):
            command = [show, f"--{kind}", f"--show={seed}"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            with open(source, "w", encoding="utf-8") as f:
                f.write(text)
            for level in ("-O0", "-O3"):
                n = faults(tilec, nvdisasm, source, [level, *bindings(text)])
                tested += n >= 0
                bad += n > 0
                if n > 0:
                    print(f"seed {seed}, {level}: {n} instructions", flush=True)
    print(f"{tested} texts with products from registers, {bad} at fault")
    return bad > 0 or not tested


if __name__ == "__main__":
    sys.exit(main())
