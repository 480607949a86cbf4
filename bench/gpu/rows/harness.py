"""How rows are timed: kernels from cubins, checks against references, medians of runs with a flushed L2, in a
random order. Importing this module opens the GPU and starts a watchdog, which ends the process when a step
hangs."""

import ctypes, json, math, os, random, re, threading, time
from collections import namedtuple
import torch

Row = namedtuple("Row", "title ms work ratio must")  # ms: the median of each competitor by its name

BEAT = [time.time(), "start", 60]


def beat(what, limit=40):
    BEAT[:] = [time.time(), what, limit]


def dog():
    while True:
        time.sleep(1)
        if time.time() - BEAT[0] > BEAT[2]:
            print("HANG in", BEAT[1], flush=True)
            os._exit(3)


threading.Thread(target=dog, daemon=True).start()

cu = ctypes.CDLL("libcuda.so.1")
torch.zeros(1, device="cuda")
NSM = torch.cuda.get_device_properties(0).multi_processor_count


def ck(r, w=""):
    if r:
        raise RuntimeError(f"CUDA error {r} {w}")


def cdiv(a, b):
    return -(-a // b)


TMAP_TYPE = {
    "u8": 0,
    "i8": 0,
    "bool": 0,
    "f8e4m3": 0,
    "f8e5m2": 0,
    "u16": 1,
    "u32": 2,
    "i32": 3,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
}
SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}
C_TYPE = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i32": ctypes.c_int,
    "i64": ctypes.c_int64,
    "index": ctypes.c_int64,
}


class Attribute(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    ]  # CUlaunchAttribute


class Config(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("n", ctypes.c_uint),
    ]


EARLY = Attribute(
    6, b"", 1, b""
)  # programmatic stream serialization, as libtile asks for it with TILE_CONTEXT_EARLY_START


class Kernel:
    """A cubin with the description of its launch; const holds what its spec was bound to."""

    def __init__(self, d, name):
        self.name = name
        self.meta = json.load(open(f"{d}/{name}.json"))
        self.const = {k: int(v) if v.lstrip("-").isdigit() else v for k, v in self.meta["const"].items()}
        m, f = ctypes.c_void_p(), ctypes.c_void_p()
        ck(cu.cuModuleLoad(ctypes.byref(m), f"{d}/{name}.cubin".encode()), "load " + name)
        ck(cu.cuModuleGetFunction(ctypes.byref(f), m, self.meta["name"].encode()))
        self.f = f
        if self.meta["shared"] > 48 * 1024:
            ck(cu.cuFuncSetAttribute(f, 8, self.meta["shared"]), "shared memory")
        n = ctypes.c_int()
        ck(
            cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(n), f, self.meta["threads"], ctypes.c_size_t(self.meta["shared"])
            )
        )
        self.per_sm = n.value

    def plan(self, args, grid):
        """A function that launches. args: tensor or number of each parameter, extent of each dimension."""
        keep, ptrs = [], []
        for s in self.meta["slots"]:
            k, a = s["kind"], args.get(s["param"])
            if k == "data":
                v = ctypes.c_uint64(a.data_ptr())
            elif k == "extent":
                v = ctypes.c_int64(args[s["dim"]])
            elif k == "stride":
                v = ctypes.c_int64(a.stride(s["index"]))
            elif k == "scalar":
                v = C_TYPE[s["dtype"]](a)
            elif k == "grid":
                v = ctypes.c_int64(grid[s["index"]])
            elif k == "scheduler":
                v = torch.zeros(2, dtype=torch.int32, device="cuda")
                keep.append(v)
                v = ctypes.c_uint64(v.data_ptr())
            elif k == "map":
                m = self.meta["maps"][s["index"]]
                t = args[m["param"]]
                n = m["rank"]
                raw = ctypes.create_string_buffer(256)
                at = (ctypes.addressof(raw) + 63) & ~63
                dims = [t.shape[x] for x in m["axes"]]
                strides = [t.stride(x) * t.element_size() for x in m["axes"]][1:]
                whole = not any(
                    x % 128 for x in strides + [t.data_ptr()]
                )  # gpu_map_promotion of runtime/drivers/gpu_facts.h
                ck(
                    cu.cuTensorMapEncodeTiled(
                        ctypes.c_void_p(at),
                        TMAP_TYPE[m["dtype"]],
                        n,
                        ctypes.c_void_p(t.data_ptr()),
                        (ctypes.c_uint64 * n)(*dims),
                        (ctypes.c_uint64 * max(1, n - 1))(*strides),
                        (ctypes.c_uint32 * n)(*[b * s for b, s in zip(m["box"], m["step"])]),
                        (ctypes.c_uint32 * n)(*m["step"]),
                        0,
                        SWIZZLE[m["swizzle"]],
                        3 if whole else 2,
                        0,
                    ),
                    "map",
                )
                keep.append(raw)
                ptrs.append(at)
                continue
            else:
                raise RuntimeError(k)
            keep.append(v)
            ptrs.append(ctypes.addressof(v))
        arr = (ctypes.c_void_p * len(ptrs))(*ptrs)
        total = math.prod(grid)
        ctas = self.meta["cluster"]
        blocks = (
            min(-(-total // ctas), NSM * self.per_sm // ctas) if self.meta["persistent"] else total
        ) * ctas
        early = self.meta.get("early_start")

        def go(keep=(keep, args)):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            if early:
                c = Config(
                    blocks,
                    1,
                    1,
                    self.meta["threads"],
                    1,
                    1,
                    self.meta["shared"],
                    stream,
                    ctypes.addressof(EARLY),
                    1,
                )
                r = cu.cuLaunchKernelEx(ctypes.byref(c), self.f, arr, None)
            else:
                r = cu.cuLaunchKernel(
                    self.f, blocks, 1, 1, self.meta["threads"], 1, 1, self.meta["shared"], stream, arr, None
                )
            if r:
                raise RuntimeError(f"launch {r}")

        return go


flush = torch.empty(64 << 20, dtype=torch.int8, device="cuda")


def median(fn, n=11):
    torch.cuda._sleep(4_000_000)  # the host gets ahead: no gap between launches is timed
    for _ in range(3):
        fn()
    ev = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(n)]
    for a, b in ev:
        flush.zero_()
        a.record()
        fn()
        b.record()
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in ev)[n // 2]


def rounds(named, n=3, got=None):
    """n medians of each name, one a round, in a new random order each: whoever follows a long hot kernel
    meets lower clocks. got: rounds that there are already"""
    got = got or {k: [] for k, _ in named}
    for r in range(len(got[named[0][0]]), n):
        for k, f in random.sample(named, len(named)):
            beat(k)
            try:
                got[k].append(median(f))
            except Exception as x:
                got[k].append(math.inf)
                print(k, str(x)[:200], flush=True)
            time.sleep(0.01)
    return got


def middle(v):
    return sorted(v)[len(v) // 2]


def compare(got, peers, ours):
    """The best of ours over the best peer, each by its median. It is the median of the rounds' ratios, so
    that a round
    in which the card was hot or cold counts as one round for both."""
    p, o = (min(v, key=lambda k: middle(got[k]), default=None) for v in (peers, ours))
    if o is None or middle(got[o]) == math.inf:
        return 0  # see failed()
    return math.inf if p is None else middle([a / b if b < math.inf else 0 for a, b in zip(got[p], got[o])])


def failed(ratio):
    """Whether nothing of ours ran: no kernel was compiled, its results were wrong, or its launches failed"""
    return not ratio > 0


def shown(ms, work, unit):
    """The time of a contender in the unit of its row. One whose launches failed has none"""
    if not 0 < ms < math.inf:
        return "failed"
    if not work:
        return f"{ms * 1e3:.1f}"
    return f"{work / ms / 1e9:.2f}" if unit == "TB/s" else f"{work / ms / 1e9:.0f}"


def verdict(ratio, must):
    if failed(ratio):
        return "FAILED: no kernel with right results ran"
    if ratio == math.inf:
        return "no peer ran"
    return f"ratio {ratio:.2f}" + ("" if must is None else " ok" if ratio >= must else f" SHORT of {must}")


class Bench:
    """What cases work with: kernels by name, one printed line a row."""

    def __init__(self, d):
        self.dir, self.kernels, self.rows = d, {}, []

    def kernel(self, name):
        if name not in self.kernels:
            try:
                self.kernels[name] = Kernel(self.dir, name)
            except Exception as x:
                print("LOAD", name, str(x)[:120], flush=True)
                self.kernels[name] = None
        return self.kernels[name]

    def named(self, prefix):
        """The kernels NAME of DIR that are PREFIX or PREFIX.something (configurations of one row)"""
        have = sorted(f[:-5] for f in os.listdir(self.dir) if f.endswith(".json"))
        return [k for k in (self.kernel(n) for n in have if n == prefix or n.startswith(prefix + ".")) if k]

    def check(self, what, go, out, want, bound):
        """runs go() onto a poisoned output and compares; want() gives the reference"""
        beat(what + " check")
        for o in out if isinstance(out, (list, tuple)) else [out]:
            o.fill_(float("nan") if o.is_floating_point() else 77)
        try:
            go()
            torch.cuda.synchronize()
            o = out[0] if isinstance(out, (list, tuple)) else out
            r = want() if callable(want) else want
            e = float((o.double() - r.double()).norm() / r.double().norm().clamp_min(1e-30))
        except Exception as x:
            e = str(x)[:200]
        if isinstance(e, float) and e <= bound:
            return True
        print("FAIL", what, e, flush=True)
        return False

    def row(self, title, work, unit, peers, ours, must=None, beside=()):
        """peers, ours, beside: [(name, function)]; work/ms/1e9 is printed in unit; the ratio is that of
        compare()"""
        if not re.search(os.environ.get("ROWS", ""), title):
            return
        named = peers + ours + list(beside)
        names = [n for n, _ in peers], [n for n, _ in ours]
        got = rounds(named)
        ratio = compare(got, *names)
        if must is not None and 0.94 < ratio / must < 1.06:
            got = rounds(named, 9, got)
            ratio = compare(got, *names)  # close: whichever side of it three rounds say
        t = {k: middle(v) for k, v in got.items()}
        print(
            f"{title}: "
            + "  ".join(f"{n} {shown(t[n], work, unit)}" for n, _ in named)
            + f" {unit if work else 'us'}  {verdict(ratio, must)}",
            flush=True,
        )
        self.rows.append(Row(title, {n: t[n] for n, _ in named}, work, ratio, must))
        return t


def finish(b, begin):
    """Says where and when the rows ran, and writes them down for OUT."""
    print(
        f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, "
        f"cuDNN {torch.backends.cudnn.version()}, {time.strftime('%Y-%m-%d')}, {time.time() - begin:.0f} s"
    )
    if os.environ.get("OUT"):
        rows = [dict(row=r.title, ms=r.ms, work=r.work, ratio=r.ratio, must=r.must) for r in b.rows]
        with open(os.environ["OUT"] + "/rows.json", "w") as f:
            json.dump(rows, f, indent=1)
