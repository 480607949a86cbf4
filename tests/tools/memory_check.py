"""memory_check.py TILEC SOURCE: what `tilec explain --memory` counts of the four transposes, against counts that
are made here by enumerating the addresses of every lane from the layouts that --emit=kernel-ir prints."""
import itertools
import re
import subprocess
import sys

tilec, source = sys.argv[1:]
kernel = source + "/examples/kernels/transpose.tile"
extent = 1024                   # of M and N
failures = 0


def run(*words):
    return subprocess.run([tilec, *words], check=True, capture_output=True, text=True).stdout


def numbers(text, name):
    return [int(x) for x in re.search(name + r"=\[([0-9,]+)\]", text).group(1).split(",")]


def blocked(text):
    """The coordinates that each (warp, lane, register) of a #blocked layout holds, and the tile."""
    tile, per, lanes, warps, order = (numbers(text, n) for n in ("tile", "per", "lanes", "warps", "order"))
    rank = len(tile)

    def digits(n, counts):      # the axis order[0] varies fastest
        out = [0] * rank
        for a in order:
            out[a] = n % counts[a]
            n //= counts[a]
        return out

    def last_fastest(n, counts):
        out = [0] * rank
        for a in reversed(range(rank)):
            out[a] = n % counts[a]
            n //= counts[a]
        return out

    held = {}
    count = lambda x: eval("*".join(map(str, x)))
    span = [per[a] * lanes[a] for a in range(rank)]
    chunk = [tile[a] // warps[a] for a in range(rank)]      # warps have contiguous chunks
    for warp, lane in itertools.product(range(count(warps)), range(count(lanes))):
        w, l = last_fastest(warp, warps), digits(lane, lanes)
        regs = []
        repeats = [max(chunk[a] // span[a], 1) for a in range(rank)]
        for again in range(count(repeats)):
            r = digits(again, repeats)
            for element in range(count(per)):
                e = digits(element, per)
                regs.append(tuple(w[a] * chunk[a] + r[a] * span[a] + l[a] * per[a] + e[a] for a in range(rank)))
        held[warp, lane] = regs
    return held, tile


def linear(text):
    """The same of a #layout without digits: the coordinates of the bits that are set are XORed."""
    bits = {n: [tuple(map(int, v.split(","))) for v in re.findall(r"\[([0-9,]+)\]", re.search(
        n + r"=(\[(?:\[[0-9,]+\],?)*\])", text).group(1))] for n in ("reg", "lane", "warp")}
    assert "digits=[]" in text, text

    def point(**inputs):
        c = [0, 0]
        for n, value in inputs.items():
            for b, by in enumerate(bits[n]):
                if value >> b & 1:
                    c = [c[0] ^ by[0], c[1] ^ by[1]]
        return tuple(c)

    size = {n: 1 << len(v) for n, v in bits.items()}
    return {(w, l): [point(reg=r, lane=l, warp=w) for r in range(size["reg"])]
            for w in range(size["warp"]) for l in range(size["lane"])}, numbers(text, "tile")


def layout(line):
    text = line[line.index("#"):]
    return blocked(text) if text.startswith("#blocked") else linear(text)


def requests(held, address, size):
    """The requests of the warps: for each, the first byte of each lane, and the bytes of a lane. A lane moves as
    many registers at once as are neighbours in memory, up to 16 bytes."""
    any_regs = next(iter(held.values()))
    width = 1
    while width * 2 * size <= 16 and len(any_regs) % (width * 2) == 0 and all(
            address(regs[k]) + j * size == address(regs[k + j])
            for regs in held.values() for k in range(0, len(regs), width * 2) for j in range(width * 2)):
        width *= 2
    warps = sorted({w for w, _ in held})
    for w in warps:
        lanes = [held[w, l] for w2, l in sorted(held) if w2 == w]
        for k in range(0, len(any_regs), width):
            yield [address(regs[k]) for regs in lanes], width * size


def sectors(all_requests):
    n = total = least = asked = 0
    for lanes, width in all_requests:
        touched = {b // 32 for a in lanes for b in range(a, a + width)}
        n, total, asked = n + 1, total + len(touched), asked + len(lanes) * width
        least += -(-len({b for a in lanes for b in range(a, a + width)}) // 32)
    return n, asked, total, least


def wavefronts(all_requests):
    """32 banks of 4 bytes; 8 and 16 bytes go in groups of 16 and 8 lanes."""
    n = total = least = 0
    for lanes, width in all_requests:
        group = 32 if width <= 4 else 128 // width
        n += 1
        for at in range(0, len(lanes), group):
            banks = {}
            for a in lanes[at:at + group]:
                for word in range(a // 4, (a + width + 3) // 4):
                    banks.setdefault(word % 32, set()).add(word)
            total += max(map(len, banks.values()))
            least += 1
    return n, total, least


def expect(what, found, wanted):
    global failures
    if found != wanted:
        failures += 1
        print(f"FAIL {what}: explain says {found}, enumeration {wanted}")


def report_rows(text):
    out = {}
    for line in text.splitlines():
        tensor = re.match(r" +\d+  (load|store) (\w) +registers +(\d+) +\S+ +(\d+) +(\d+) +(\d+) +(\d+) +\d+%  (.*)", line)
        shared = re.match(r" +\d+  convert .*  vectors (write|read) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)  (.*)", line)
        if tensor:
            out[tensor.group(1)] = [int(tensor.group(k)) for k in range(3, 8)] + [tensor.group(8)]
        if shared:
            out[shared.group(1)] = [int(shared.group(k)) for k in range(2, 7)] + [shared.group(7)]
    return out


def check(name, words, verdicts, conflicts):
    words = [kernel, "--target=cuda:sm_90a", "-D", f"M={extent}", "-D", f"N={extent}", "-D", "T=f32", *words]
    ir = run(*words, "--emit=kernel-ir")
    rows = report_rows(run("explain", *words, "--memory"))
    load = [m for m in ir.splitlines() if " = load %X" in m][0]
    expect(f"{name}: the load is in transposed order", "order = [1, 0]" in load, True)
    held, tile = layout(load)
    in_x = lambda c: 4 * (c[1] * extent + c[0])
    stored = [m for m in ir.splitlines() if " = convert " in m]
    into = layout(stored[0])[0] if stored else held
    in_y = lambda c: 4 * (c[0] * extent + c[1])
    for op, where, address in (("load", held, in_x), ("store", into, in_y)):
        all_requests = list(requests(where, address, 4))
        n, asked, total, least = sectors(all_requests)
        expect(f"{name}, {op}: width, requests, bytes, sectors, fewest", rows[op][:5],
               [all_requests[0][1], n, asked, total, least])
        expect(f"{name}, {op}: verdict", rows[op][5].split(",")[0], verdicts[op])
    if conflicts is None:
        return
    # Without a swizzle the staging tile is row-major.
    found = {side: rows[side] for side in ("write", "read")}
    if conflicts == "enumerated":
        row_major = lambda c: 4 * (c[0] * tile[1] + c[1])
        for side, where in (("write", held), ("read", into)):
            all_requests = list(requests(where, row_major, 4))
            n, total, least = wavefronts(all_requests)
            expect(f"{name}, {side}: width, requests, wavefronts, fewest",
                   [found[side][0], found[side][1], found[side][3], found[side][4]], [all_requests[0][1], n, total, least])
        expect(f"{name}: there are conflicts", found["write"][3] > 2 * found["write"][4], True)
    else:
        for side in found:
            expect(f"{name}, {side}: conflicts", (found[side][3], found[side][5]), (found[side][4], "none"))


good, bad = "coalesced", "uncoalesced: strided"
check("row-wise", ["-D", "TM=1", "-D", "TN=1024"], {"load": good, "store": bad}, None)
check("coalesced", ["-D", "TM=1024", "-D", "TN=1"], {"load": bad, "store": good}, None)
check("through shared memory", ["-D", "TM=64", "-D", "TN=64", "--skip-pass=swizzle"], {"load": good, "store": good}, "enumerated")
check("without bank conflicts", ["-D", "TM=64", "-D", "TN=64"], {"load": good, "store": good}, "none")
sys.exit(failures > 0)
