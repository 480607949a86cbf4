"""The package with NumPy arrays on the CPU."""

import gc
import html.parser
import inspect
import math
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings
import weakref

import numpy as np

import tile

KERNELS = os.environ["TILE_KERNELS"]
MANY = """
const int ONE = 1;
// Adds what is given.
kernel many(in f32 X[M, N], in f32 B[N]?, inout i32 L[M], out f32 Y[N, M], out f32 Z[cdiv(M, 4), ONE + 1],
            f32 s = 2.0, i32 t, bool neg = false, const int TN = 16)
    grid (M, cdiv(N, TN))
{
    let (i, j) = program_id();
    var x = load(X[i +: 1, j*TN +: TN]) * s + f32(t);
    const if has(B) { x = x + load(B[j*TN +: TN])[None, :]; }
    if neg { x = -x; }
    store(Y[j*TN +: TN, i +: 1], transpose(x));
    if j == 0 { store(L[i +: 1], load(L[i +: 1]) + t); store(Z[i/4 +: 1, 0 +: 2], full([1, 2], 1.0, f32)); }
}
"""


def many_in_numpy(x, b, t, s=2.0, neg=False):
    y = x * np.float32(s) + np.float32(t) + (0 if b is None else b)
    return (-y if neg else y).T


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        cls.many = tile.loads(MANY, name="many.tile")["many"]

    def check_softmax(self, x, **named):
        y = self.softmax(x, **named)
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=0.01, atol=1e-3)
        return y

    def test_types_and_layouts(self):
        rng = np.random.default_rng(1)
        for dtype in (np.float32, np.float16):
            x = rng.random((33, 100)).astype(dtype)
            for _ in range(3):  # the long way, then the short way
                self.assertEqual(self.check_softmax(x).dtype, dtype)
                self.check_softmax(x.T)
                self.check_softmax(x[:, ::2])
                self.check_softmax(x[::-1, ::-1])
                self.check_softmax(x[3:, 1:])  # not aligned
                self.check_softmax(np.broadcast_to(x[0], (5, 100)))
        self.assertEqual(self.softmax(np.zeros((0, 5), np.float32)).shape, (0, 5))

    def test_keywords_take_the_short_way(self):
        text = "kernel twice(in f32 X[N], out f32 Y[N], f32 a = 2.0, const int B = 64) grid (cdiv(N, B)) { " \
            "let i = program_id(); store(Y[i*B +: B], load(X[i*B +: B]) * a); }"
        twice = tile.loads(text)["twice"]
        x, y = np.arange(100, dtype=np.float32), np.empty(100, np.float32)
        calls = [
            lambda: twice(x, B=32),
            lambda: twice(X=x),
            lambda: twice(x, out=y, B=16),
            lambda: twice(B=32, X=x),
            lambda: twice(x, a=2.0, B=32),
            lambda: twice(x, a=np.float32(2), B=True * 8),  # a number that is no float goes the long way
        ]
        for call in calls:
            np.testing.assert_array_equal(call(), 2 * x)
        with unittest.mock.patch("tile._kernel._Call") as long_way:
            for call in calls[:-1]:
                np.testing.assert_array_equal(call(), 2 * x)
            long_way.assert_not_called()
        for args, named in (((), {"B": 32}), ((x,), {"X": x}), ((x, 1.0, x), {}), ((x,), {"b": 1})):
            self.assertRaises(tile.ArgumentError, twice, *args, **named)

    def test_read_only_inputs(self):
        x = np.ones((4, 8), np.float32)
        x.flags.writeable = False
        for _ in range(3):
            self.check_softmax(x)

    def test_out(self):
        x = np.random.rand(6, 40).astype(np.float32)
        want = self.softmax(x)
        for _ in range(3):
            y = np.empty_like(x)
            self.assertIs(self.softmax(x, out=y), y)
            np.testing.assert_array_equal(y, want)
            z = np.empty((40, 6), np.float32).T
            self.assertIs(self.softmax(x, out=z), z)
            np.testing.assert_array_equal(z, want)
            self.assertIs(self.softmax(x, Y=y), y)
            y.flags.writeable = False
            with self.assertRaisesRegex(tile.ArgumentError, "Y is written to, but the array is read-only"):
                self.softmax(x, out=y)
            with self.assertRaisesRegex(tile.ArgumentError, "overlaps"):
                self.softmax(x, out=x)
            with self.assertRaises(tile.ArgumentError):
                self.softmax(x, out=np.empty((6, 41), np.float32))
            with self.assertRaises(tile.ArgumentError):
                self.softmax(x, out=np.empty((6, 40), np.float64))
            with self.assertRaisesRegex(tile.ArgumentError, "1 outputs, found 2"):
                self.softmax(x, out=(y, y))

    def test_first_call_with_a_transposed_output(self):
        """What is allocated later does not lie as the caller's output did."""
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        x, z = np.random.rand(6, 40).astype(np.float32), np.empty((40, 6), np.float32).T
        softmax(x, out=z)
        for _ in range(3):
            np.testing.assert_array_equal(softmax(x), z)

    def test_all_kinds_of_parameters(self):
        rng = np.random.default_rng(2)
        x, b = rng.random((6, 50)).astype(np.float32), rng.random(50).astype(np.float32)
        for _ in range(3):
            for args, named, want in (
                ((x, b), dict(L=1, t=3), many_in_numpy(x, b, 3)),
                ((x, None), dict(L=1, t=-3, s=0.5), many_in_numpy(x, None, -3, 0.5)),
                ((x,), dict(L=1, t=2, TN=32), many_in_numpy(x, None, 2)),
                ((x, b), dict(L=1, s=1, t=np.int32(4), neg=True), many_in_numpy(x, b, 4, 1, True)),
                ((x,), dict(B=b, L=1, s=np.float32(3), t=True), many_in_numpy(x, b, 1, 3)),
            ):
                counts = np.arange(6, dtype=np.int32)
                y, z = self.many(*args, **{**named, "L": counts})
                np.testing.assert_allclose(y, want, rtol=1e-5)
                np.testing.assert_array_equal(z, np.ones((2, 2)))
                np.testing.assert_array_equal(counts, np.arange(6) + int(named["t"]))
            counts = np.zeros(6, np.int32)
            y, z = self.many(x, b, counts, 1.5, 7)  # by position
            np.testing.assert_allclose(y, many_in_numpy(x, b, 7, 1.5), rtol=1e-5)
            self.assertEqual(list(counts), [7] * 6)
        counts.flags.writeable = False
        with self.assertRaisesRegex(tile.ArgumentError, "L is written to"):
            self.many(x, b, counts, 1.5, 7)

    def test_wrong_arguments(self):
        x, counts = np.ones((6, 50), np.float32), np.zeros(6, np.int32)
        self.many(x, None, counts, 1.0, 1)
        for args, named, text in (
            ((), {}, "X is missing"),
            ((x, None, counts), {}, "t is missing"),
            ((x, None, counts, 1.0, 0.5), {}, "t"),
            ((x, None, counts, 1.0, 1 << 40), {}, "t"),
            ((x, None, counts, 1.0, 1 << 70), {}, "t: 1180591620717411303424 does not fit"),
            ((x, None, counts, "a", 1), {}, "s: a number was expected, found 'a'"),
            ((x, None, counts, 1.0, 1, False, 9), {}, "takes 6 arguments by position, found 7"),
            ((x, None, counts, 1.0, 1), {"X": x}, "X is given twice"),
            ((x, None, counts, 1.0, 1), {"TM": 4}, "no const, dimension or hint named `TM`"),
            ((x, None, counts, 1.0, 1), {"Q": x}, "many has no tensor named Q; it has X, "),
            ((x, None, counts, x, 1), {}, "s: a number was expected, found ndarray of shape (6, 50)"),
            ((x.astype(np.complex64), None, counts, 1.0, 1), {}, "no element type for"),
            ((x.astype(">f4"), None, counts, 1.0, 1), {}, "no element type for"),
            ((x.astype(np.float64), None, counts, 1.0, 1), {}, "X"),
            ((x[0], None, counts, 1.0, 1), {}, "has 2 axes, found 1"),
            (([[1.0]], None, counts, 1.0, 1), {}, "X: an array was expected, found list"),
            ((x, None, np.zeros(5, np.int32), 1.0, 1), {}, "M is"),
        ):
            with self.assertRaises(tile.ArgumentError, msg=text) as caught:
                self.many(*args, **named)
            self.assertIn(text, str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(caught.exception.status, "TILE_ERROR_SHAPE")
        record = np.zeros(4, np.dtype([("a", np.int8), ("b", np.float32)]))["b"]
        with self.assertRaisesRegex(tile.ArgumentError, "no multiples of the 4 bytes"):
            tile.loads(
                "kernel k(in f32 X[N], out f32 Y[N]) grid (N) { store(Y[program_id() +: 1], "
                "load(X[program_id() +: 1])); }"
            )["k"](record)

    def test_a_dimension_that_no_input_has(self):
        fill = tile.loads(
            "kernel fill(out f32 Y[N], in f32 A[1]) grid (N) { let i = program_id(); "
            "store(Y[i +: 1], load(A[0 +: 1])); }"
        )["fill"]
        one = np.array([3], np.float32)
        with self.assertRaisesRegex(tile.ArgumentError, "dimension N is not known: .*N=\\.\\.\\."):
            fill(one)
        for _ in range(2):
            self.assertEqual(list(fill(one, N=4)), [3] * 4)

    def test_workspace_limit(self):
        for limit in (-1, 0, 64 << 20):
            self.assertEqual(tile.Context("cpu", workspace_limit=limit).target, tile.Context("cpu").target)
        with self.assertRaisesRegex(tile.Error, "workspace_limit"):
            tile.Context("cpu", workspace_limit=-2)

    def test_threads(self):
        rng = np.random.default_rng(3)
        kernel = self.softmax.bind(T="f32")
        arrays = [rng.random((7, 60)).astype(np.float32) for _ in range(8)]
        wants = [kernel(a) for a in arrays]
        wrong = []

        def work(i):
            for _ in range(300):
                if not np.array_equal(kernel(arrays[i]), wants[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_nothing_is_kept(self):
        class Array(np.ndarray):
            pass

        x = np.ones((4, 8), np.float32)
        for _ in range(3):
            y = self.softmax(x)
        before = sys.getrefcount(x)
        self.softmax(x)
        self.assertEqual(sys.getrefcount(x), before)
        a = x.view(Array)
        gone = weakref.ref(a)
        self.softmax(a)
        del a
        gc.collect()
        self.assertIsNone(gone())
        del y

    def test_many_shapes(self):
        for n in range(1, 1100):
            x = np.ones((1, 16), np.float32)[:, :16]
            y = self.softmax(np.lib.stride_tricks.as_strided(x, (1, 16), (64 + 4 * n, 4)))
        self.assertAlmostEqual(float(y[0, 0]), 1 / 16)


class Modules(unittest.TestCase):
    def test_errors_carry_the_diagnostics(self):
        with self.assertRaises(tile.CompileError) as caught:
            tile.loads(
                "kernel k(in f32 X[N])\n    grid (N)\n{\n    let x = load(Z[0]);\n    let y = w;\n}\n",
                name="bad.tile",
            )
        error = caught.exception
        self.assertIn("bad.tile:4:18: error: unknown name `Z`\n", str(error))
        self.assertIn("let y = w;", str(error))
        self.assertEqual(
            [(d.severity, d.line) for d in error.diagnostics if d.severity == "error"],
            [("error", 4), ("error", 5)],
        )
        with self.assertRaises(OSError):
            tile.load("/no/such/file.tile")
        with self.assertRaisesRegex(KeyError, "no kernel .*; the module has "):
            tile.loads(MANY)["nothing"]
        with self.assertRaisesRegex(AttributeError, r"a kernel is an item: module\['many'\]"):
            tile.loads(MANY).many
        with self.assertRaisesRegex(AttributeError, "has no attribute 'nothing'$"):
            tile.loads(MANY).nothing
        with self.assertRaisesRegex(tile.Error, "unknown target"):
            tile.Context("vax")

    def test_errors_belong_to_the_thread_that_called(self):
        """Threads that fail at the same time in one context each get their own messages."""
        ctx, wrong, start = tile.Context("cpu", cache=False), [], threading.Barrier(4)
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"), context=ctx)["softmax"]
        x = np.ones((4, 8), np.float32)
        softmax(x)

        def work(i):
            start.wait()
            for n in range(150):
                try:
                    tile.loads(f"kernel k(in f32 X[N]) grid (N) {{ let y = w{i}_{n}; }}", context=ctx)
                except tile.CompileError as error:
                    said = [d.message for d in error.diagnostics if d.severity == "error"]
                    if said != [f"unknown name `w{i}_{n}`"]:
                        wrong.append((i, n, said))
                try:
                    softmax(x, out=np.empty((10 + i, 8), np.float32))
                except tile.ArgumentError as error:
                    if f"dimension M is 4 in X (axis 0) but {10 + i} in Y" not in str(error):
                        wrong.append((i, n, str(error)))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong[:3], [])

    def test_warnings(self):
        text = (
            "kernel k(in f32 X[N], out f32 Y[N]) grid (N) { let x = load(X[0 +: 4]); "
            "store(Y[0 +: 4], max(x, 0)); }"
        )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            k = tile.loads(text, context=tile.Context("cpu", cache=False))["k"]
            k(np.ones(4, np.float32))
        self.assertTrue(
            any(issubclass(w.category, tile.Warning) and "max(x, axis = 0)" in str(w.message) for w in said),
            said,
        )

    def test_signature(self):
        many = tile.loads(MANY)["many"]
        self.assertEqual([p.name for p in many.parameters], ["X", "B", "L", "Y", "Z", "s", "t", "neg", "TN"])
        self.assertEqual(
            [str(p) for p in many.parameters],
            [
                "in f32 X[M, N]",
                "in f32 B[N]?",
                "inout i32 L[M]",
                "out f32 Y[N, M]",
                "out f32 Z[cdiv(M, 4), 1 + 1]",
                "f32 s = 2.0",
                "i32 t",
                "bool neg = False",
                "const int TN = 16",
            ],
        )
        self.assertTrue(many.__doc__.startswith("Adds what is given.\nmany(in f32 X[M, N], "))
        names = list(inspect.signature(many).parameters)
        self.assertEqual(set(names), {"X", "B", "L", "s", "t", "neg", "out", "stream", "TN"})
        self.assertIn("kernel many(", many._repr_markdown_())
        self.assertTrue(many.source.endswith("}"))
        module = many.module
        self.assertEqual((list(module), len(module), "many" in module), (["many"], 1, True))
        self.assertIn("const int ONE", module._repr_markdown_())
        self.assertIs(module["many"], many)
        self.assertIs(many.bind(TN=8), many.bind(TN=8))
        self.assertIn("TN=8", repr(many.bind(TN=8)))

    def test_notebook(self):
        class Reader(html.parser.HTMLParser):
            def __init__(self):
                super().__init__()
                self.open, self.text, self.colored, self.pre = [], [], {}, []

            def handle_starttag(self, tag, attrs):
                self.open.append((tag, dict(attrs).get("style")))
                assert tag in ("div", "b", "table", "tr", "td", "th", "details", "summary", "pre", "span"), tag
                assert {n for n, _ in attrs} <= {"style", "open"}, attrs

            def handle_endtag(self, tag):
                assert self.open.pop()[0] == tag, tag

            def handle_data(self, data):
                self.text.append(data)
                if any(tag == "pre" for tag, _ in self.open):
                    self.pre.append(data)
                if self.open[-1][0] == "span":
                    self.colored.setdefault(self.open[-1][1], set()).add(data)

        source = (
            '// <script>alert("&amp;")</script>\nkernel k(in f32 X[N], out f32 Y[N], const int B = 16)\n'
            "    grid (cdiv(N, B))\n{\n    let i = program_id();\n    let x = load(X[i*B +: B]);\n"
            "    store(Y[i*B +: B], where(x < 1e-3, x, x + 1.5));\n}\n"
            "tune k { B in {16, 32}; key (N); }\n"
        )
        module = tile.loads(source, name="<b>.tile", context=tile.Context("cpu", cache=False))
        k = module["k"]
        for thing in (module, k, k.bind(B=32)):
            page = Reader()
            page.feed(thing._repr_html_())
            page.close()
            self.assertEqual(page.open, [])
            text = "".join(page.text)
            self.assertIn("where(x < 1e-3, x, x + 1.5)", text)
            self.assertNotIn("http", thing._repr_html_())
            kinds = list(page.colored.values())
            self.assertTrue(any({"kernel", "in", "out", "let"} <= words for words in kinds), kinds)
            self.assertTrue(any({"load", "store", "where", "cdiv"} <= words for words in kinds), kinds)
            self.assertTrue(any("f32" in words for words in kinds), kinds)
            self.assertTrue(any({"1e-3", "1.5"} <= words for words in kinds), kinds)
        self.assertIn("tune space", text)
        self.assertIn("B in {16, 32}", text)
        page = Reader()
        page.feed(module._repr_html_())
        self.assertEqual("".join(page.pre), source.rstrip())
        self.assertIn("<b>.tile", "".join(page.text))
        self.assertNotIn("chosen configuration", k._repr_html_())
        k(np.ones(100, np.float32))
        k(np.ones(100, np.float32))
        k(np.ones(64, np.float32))
        page = Reader()
        page.feed(k._repr_html_())
        text = "".join(page.text)
        self.assertIn("chosen configuration", text)
        self.assertEqual(text.count("X: f32[100], Y: f32[100]"), 1)
        self.assertIn("X: f32[64], Y: f32[64]", text)

    def test_binding(self):
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        x = np.ones((2, 8), np.float32)
        for t in ("f32", np.float32, np.dtype("float32")):
            np.testing.assert_allclose(softmax.bind(T=t)(x), 1 / 8)
        with self.assertRaisesRegex(tile.ArgumentError, "X"):
            softmax.bind(T="f16")(x)
        with self.assertRaises(tile.ArgumentError):
            softmax.bind(T=3)(x)
        with self.assertRaisesRegex(tile.ArgumentError, "a number, a bool or a type was expected"):
            softmax.bind(T=object())(x)

    def test_zeros_of_both_signs_are_two_consts(self):
        k = tile.loads(
            "kernel k(in f32 X[N], out f32 Y[N], const float Z = 1.0) grid (N)"
            "{ let i = program_id(); store(Y[i], load(X[i]) / Z); }"
        )["k"]
        x = np.ones(1, np.float32)
        for z in (0.0, -0.0, 0.0, 2.0, -0.0):
            want = 0.5 if z == 2 else math.copysign(math.inf, z)
            self.assertEqual(k(x, Z=z)[0], want)
            self.assertEqual(k.bind(Z=z)(x)[0], want)
        self.assertIs(k.bind(Z=math.nan), k.bind(Z=-math.nan))

    def test_scalars_of_64_bits(self):
        src = "kernel k(in T X[N], out T Y[N], T s, const type T = i64) grid (N) { let i = program_id(); store(Y[i], s); }"
        for T, low, high in ((np.int64, -(1 << 63), (1 << 63) - 1), (np.uint64, 0, (1 << 64) - 1)):
            k, x = tile.loads(src)["k"], np.zeros(1, T)
            for _ in range(2):  # the long way, the short way
                for s in (low, 5, high):
                    self.assertEqual(int(k(x, s)[0]), s)
                for s in (low - 1, high + 1):
                    with self.assertRaisesRegex(tile.ArgumentError, "does not fit"):
                        k(x, s)

    def test_explain_prepare_seal(self):
        ctx = tile.Context("cpu", cache=False)
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"), context=ctx)["softmax"]
        x = np.ones((32, 64), np.float32)
        variant = softmax.explain(x)
        self.assertEqual((variant.programs, variant.target, variant.from_cache), (32, "cpu", False))
        self.assertIn("N=64", variant.specialization)
        self.assertIn("programs:       32", str(variant))
        self.assertEqual(softmax.prepare(M=range(1, 33), N=100, types={"T": "f32"}), 2)
        ctx.seal()
        for m in range(1, 33):
            softmax(np.ones((m, 100), np.float32))
        with self.assertRaises(tile.SealedError):
            softmax(np.ones((4, 101), np.float32))
        self.assertEqual(len(ctx.missing()), 1)
        self.assertIn("softmax<", ctx.missing()[0])
        ctx.seal(False)
        self.assertEqual(ctx.missing(), [])
        for bad in (dict(M=range(5, 1), N=1), dict(M="x", N=1)):
            with self.assertRaisesRegex(tile.ArgumentError, "an extent or a range"):
                softmax.prepare(**bad)
        with self.assertRaisesRegex(tile.ArgumentError, "N has no range"):
            softmax.prepare(M=3, types={"T": "f32"})

    def test_prepare_says_what_its_threads_say(self):
        ctx = tile.Context("cpu", cache=False)
        k = tile.loads(
            'kernel k(in f32 X[N], out f32 Y[N]) grid (1) { assert(N < 30, "too many"); '
            "store(Y[0 +: N], load(X[0 +: N])); }",
            context=ctx,
        )["k"]
        k.prepare(N=range(28, 30), threads=2)
        with self.assertRaises(tile.CompileError) as caught:
            k.prepare(N=range(28, 40), threads=2)
        self.assertIn("too many", str(caught.exception))
        said = [d.message for d in caught.exception.diagnostics]
        self.assertIn("assertion fails at compile time: too many", said)
        self.assertEqual(ctx._elsewhere, [])

    def test_prepare_takes_the_types_as_declared(self):
        ctx = tile.Context("cpu", cache=False)
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"), context=ctx)["softmax"]
        softmax.prepare(M=4, N=100)
        softmax.prepare(M=4, N=100, types={"T": np.float32})
        ctx.seal()
        softmax(np.ones((4, 100), np.float16))
        softmax(np.ones((4, 100), np.float32))
        self.assertEqual(ctx.missing(), [])

    def test_large_unsigned_scalar(self):
        text = "kernel put(u64 seed, out u64 Y[1]) grid (1) { store(Y[0], seed); }"
        put = tile.loads(text)["put"]
        y = np.zeros(1, np.uint64)
        for seed in (2**63 + 5, 2**64 - 1, 7, 2**63 + 5):
            put(seed, out=y)
            self.assertEqual(int(y[0]), seed)

    def test_tune(self):
        text = (
            "kernel copy(in f32 X[N], out f32 Y[N], const int B = 64) grid (cdiv(N, B)) { "
            "let i = program_id(); store(Y[i*B +: B], load(X[i*B +: B])); }\n"
            "tune copy { B in {64, 256}; key (N); }\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "copy.tile")
            with open(path, "w") as file:
                file.write(text)
            x = np.ones(4096, np.float32)
            results = tile.load(path)["copy"].tune(
                x, budget=5, write=os.path.join(folder, "copy.tune"), note="n"
            )
            self.assertEqual({r.config for r in results}, {"B=64", "B=256"})
            self.assertEqual(results[0].state, "timed")
            self.assertIn(results[0].config, tile.load(path)["copy"].explain(x).specialization)
        with self.assertRaises(tile.ArgumentError):
            tile.loads(MANY)["many"].tune(np.ones((2, 2), np.float32), None, np.zeros(2, np.int32), 1.0, 1)

    def test_checked_and_print(self):
        text = (
            "kernel k(in f32 X[N], in i32 I[N], out f32 Y[N]) grid (1) { let i = load(I[0 +: 4]); "
            "store(Y[0 +: 4], gather(X[i])); }"
        )
        k = tile.loads(text, context=tile.Context("cpu", checked=True))["k"]
        with self.assertRaises(tile.Error) as caught:
            k(np.ones(4, np.float32), np.array([0, 1, 2, 9], np.int32))
        self.assertEqual(caught.exception.status, "TILE_ERROR_CHECK")


def import_times(module, runs=8):
    """The processor time that importing a module takes, and the time that it may take: 1.3 times that of some
    modules of Python, about 30 ms on an AMD EPYC. The two are measured in turns, as the load of the
    machine changes both; the least of several runs counts."""
    code = (
        "import sys, time; t = time.process_time(); import {}; t = time.process_time() - t\n"
        "assert 'torch' not in sys.modules and {}\nprint(t)"
    )
    measured = code.format(module, f"('numpy' not in sys.modules or {module!r} == 'numpy')")
    yardstick = code.format("ctypes, json, subprocess, tempfile", "True")
    times = [
        [
            float(subprocess.run([sys.executable, "-c", c], check=True, capture_output=True).stdout)
            for c in (measured, yardstick)
        ]
        for _ in range(runs)
    ]
    return min(t for t, _ in times), 1.3 * min(t for _, t in times)


class Package(unittest.TestCase):
    def test_other_ways_to_an_address(self):
        """Where arrays cannot be read in memory, the results are the same."""
        code = (
            "import os, numpy as np, tile\nfrom tile import _fast\n_fast._memory = False\n"
            "k = tile.load(os.path.join(os.environ['TILE_KERNELS'], 'softmax.tile'))['softmax']\n"
            "x = np.ones((3, 8), np.float32)\n"
            "for _ in range(3): assert abs(k(x) - 1 / 8).max() < 1e-6\n"
            "y = np.empty_like(x)\nassert k(x, out=y) is y\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_several_given_outputs(self):
        """A tuple of outputs goes the short way, as one output does, if it is as those that are allocated."""
        text = (
            "kernel both(in f32 X[M, N], out f32 Y[M, N], out f32 S[M]) grid (M)\n{\n"
            "    let r = program_id();\n    let x = load(X[r, :]);\n    let s = sum(x, drop = true);\n"
            "    store(S[r], s);\n    store(Y[r, :], x + s);\n}\n"
        )
        both = tile.loads(text)["both"]
        x = np.arange(24, dtype=np.float32).reshape(3, 8)
        given = np.empty_like(x), np.empty(3, np.float32)
        both(x, out=given)
        slow, both._slow_call = both._slow_call, lambda *_: self.fail("the long way")
        for a in given:
            a[:] = -1
        self.assertIs(both(X=x, out=given)[1], given[1])
        np.testing.assert_allclose(given[1], x.sum(1))
        np.testing.assert_allclose(given[0], x + x.sum(1, keepdims=True))
        both._slow_call = slow
        turned = np.empty((8, 3), np.float32).T, given[1]
        self.assertIs(both(x, out=turned)[0], turned[0])
        np.testing.assert_allclose(turned[0], given[0])
        for wrong in (given[:1], (*given, given[1]), given[0], (given[1], given[0])):
            with self.assertRaises((tile.ArgumentError, TypeError, ValueError)):
                both(x, out=wrong)

    def test_dlpack(self):
        class Foreign:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **named):
                return self.array.__dlpack__(**named)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        x, y = np.ones((3, 8), np.float32), np.empty((8, 3), np.float32).T
        out = Foreign(y)
        self.assertIs(softmax(Foreign(x), out=out), out)
        np.testing.assert_allclose(y, 1 / 8)
        with self.assertRaisesRegex(tile.ArgumentError, "Y cannot be allocated for Foreign: give out="):
            softmax(Foreign(x))

    def test_import_is_quick_and_needs_nothing(self):
        attempts = (import_times("tile") for _ in range(4))  # other work comes and goes
        self.assertTrue(any(took < limit for took, limit in attempts))

    def test_slow_imports_are_found(self):
        with self.assertRaises(AssertionError):
            self.assertLess(*import_times("numpy", runs=2))

    def test_no_library(self):
        env = {**os.environ, "TILE_LIBRARY": "/no/such/libtile.so"}
        run = subprocess.run(
            [sys.executable, "-c", "import tile; tile.context()"], env=env, capture_output=True, text=True
        )
        self.assertIn("libtile was not found: install the package libtile0, or set TILE_LIBRARY", run.stderr)


if __name__ == "__main__":
    unittest.main()
