#!/usr/bin/env python3
"""in_flight.py NVDISASM CUBIN...: registers that products in flight still use, in what ptxas made of a kernel.

A product of a warpgroup (HGMMA, IGMMA, QGMMA) reads its left operand, where that lies in registers, and writes
its sum until WARPGROUP.DEPBAR has waited for the group that `gsb0` closes. This follows all paths of each
kernel with the groups in flight, and lists the instructions that write an operand of one of them, as a product
does whose sum lies there, or that read or write a sum. Prints a line for each cubin; exit status 1 if there is
such an instruction, or if no product of all cubins reads registers, so that nothing was tested.
"""

import re
import subprocess
import sys
from collections import deque
from typing import NamedTuple

INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
PRODUCT = re.compile(r"(?:@!?U?P\w+\s+)?([HIQ])GMMA\.64x(\d+)x\S*\s+R(\d+), (?:R(\d+)|)")
WRITES_NO_REGISTER = ("ST", "SYNCS", "BRA", "BAR", "RED", "EXIT", "WARP", "UT", "CCTL", "MEMBAR", "ATOMS", "DEPBAR")


class Group(NamedTuple):
    closed: bool
    operands: frozenset
    sums: frozenset


def read(nvdisasm: str, cubin: str):
    """Instructions as (address, text), the places of labels, and where kernels begin."""
    text = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    code, labels, starts = [], {}, []
    for line in text.splitlines():
        if line.startswith(".text."):
            starts.append(len(code))
        elif line.startswith(".L"):
            labels[line.rstrip(":")] = len(code)
        elif m := INSTRUCTION.match(line):
            code.append((m[1], m[2]))
    return code, labels, starts


def written(text: str) -> set:
    """The registers that an instruction other than a product writes."""
    m = re.match(r"(?:@!?U?P\w+\s+)?(\S+)\s+(.*)", text)
    if not m or m[1].startswith(WRITES_NO_REGISTER):
        return set()
    wide = 4 if ".128" in m[1] else 2 if ".64" in m[1] or m[1].startswith(("IMAD.WIDE", "CS2R")) else 1
    if m[1].startswith("LDSM"):
        wide = {"4": 4, "2": 2}.get(m[1][-1], 1)
    for argument in m[2].split(","):
        if not re.match(r"\s*U?P[\dT]", argument):
            r = re.match(r"\s*R(\d+)", argument)
            return set(range(int(r[1]), int(r[1]) + wide)) if r else set()
    return set()


def issue(groups: tuple, text: str) -> tuple:
    m = PRODUCT.match(text)
    words = int(m[2]) // (2 if ".F32" in text or m[1] == "I" else 4)
    operands = set(range(int(m[4]), int(m[4]) + 4)) if m[4] else set()
    last = groups[-1] if groups and not groups[-1].closed else Group(False, frozenset(), frozenset())
    before = groups[:-1] if groups and not groups[-1].closed else groups
    sums = last.sums | set(range(int(m[3]), int(m[3]) + words))
    return (*before, Group("gsb0" in text, last.operands | operands, frozenset(sums)))


def wait(groups: tuple, left: int) -> tuple:
    closed = [g for g in groups if g.closed]
    return tuple(closed[len(closed) - left :] if left else []) + tuple(g for g in groups if not g.closed)


def clashes(groups: tuple, text: str) -> bool:
    to = written(text)
    used = {int(r) for r in re.findall(r"\bR(\d+)", text)} | to
    return any(to & g.operands or used & g.sums for g in groups)


def follow(code: list, labels: dict, starts: list):
    """The instructions that use registers in flight, and how many products read registers."""
    found, from_registers, seen = {}, set(), set()
    todo = deque((s, ()) for s in starts)
    while todo:
        at, groups = todo.popleft()
        while at < len(code) and (at, groups) not in seen:
            seen.add((at, groups))
            address, text = code[at]
            if m := PRODUCT.match(text):
                if issue((), text)[0].sums & set().union(*(g.operands for g in groups)):
                    found[address] = text
                groups = issue(groups, text)
                if m[4]:
                    from_registers.add(at)
            elif m := re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x([0-9a-f]+)", text):
                groups = wait(groups, int(m[1], 16))
            elif "WARPGROUP" not in text and clashes(groups, text):
                found[address] = text
            if m := re.search(r"\bBRA\b.*`\((\.L\w+)\)", text):
                todo.append((labels[m[1]], groups))
                if not text.startswith("@") and not re.search(r"BRA(\.\w+)* !?U?P", text):
                    break
            if re.match(r"EXIT|RET", text):
                break
            at += 1
    return found, len(from_registers)


def main() -> int:
    nvdisasm, cubins = sys.argv[1], sys.argv[2:]
    wrong = tested = 0
    for cubin in cubins:
        code, labels, starts = read(nvdisasm, cubin)
        found, products = follow(code, labels, starts)
        print(f"{cubin}: {len(code)} instructions, {products} products from registers, {len(found)} wrong")
        for address in sorted(found)[:8]:
            print(f"  {address}  {found[address]}")
        wrong += len(found)
        tested += products
    if not tested:
        print("no product reads registers")
    return 1 if wrong or not tested else 0


if __name__ == "__main__":
    sys.exit(main())
