"""The package with PyTorch: on the CPU, and on a GPU where there is one."""

import os
import unittest

import numpy as np
import torch

import tile

KERNELS = os.environ["TILE_KERNELS"]
UPDATE = """
// Adds s * X to L and counts; rows of Y are sums of parts.
kernel update(in f32 X[M, N], in f32 B[N]?, inout f32 L[M, N], out f32 Y[M, cdiv(N, 16)], f32 s = 2.0,
              i32 t = 0, const int TN = 16)
    grid (M, cdiv(N, TN))
{
    let (i, j) = program_id();
    var x = load(X[i +: 1, j*TN +: TN]) * s + f32(t);
    const if has(B) { x = x + load(B[j*TN +: TN])[None, :]; }
    store(L[i +: 1, j*TN +: TN], load(L[i +: 1, j*TN +: TN]) + x);
    store(Y[i +: 1, j +: 1], sum(where(arange(TN)[None, :] + j*TN < extent(X, 1), x, 0.0), axis = 1));
}
"""


def parts(x):
    return torch.stack([p.sum(1) for p in x.split(16, dim=1)], dim=1)


def need_cpu(test):
    """Skips the test where the library was built without LLVM, as one for a GPU alone may be."""
    copy = tile.loads("kernel copy(in f32 X[8], out f32 Y[8]) grid (1) { store(Y[0 +: 8], load(X[0 +: 8])); }")
    try:
        copy["copy"](np.ones(8, np.float32))
    except tile.Error as e:
        if "no backend for cpu" not in str(e):
            raise
        test.skipTest(str(e))


class Cpu(unittest.TestCase):
    device = "cpu"

    @classmethod
    def setUpClass(cls):
        cls.softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        cls.update = tile.loads(UPDATE)["update"]

    def rand(self, *shape, **named):
        return torch.rand(*shape, device=self.device, **named)

    def test_call(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 1e-2)):
            x = self.rand(9, 100).to(dtype)
            for view in (x, x[:, ::2], x[2:, 3:], x.t()):
                y = self.softmax(view)
                self.assertEqual((y.dtype, y.device), (x.dtype, x.device))
                torch.testing.assert_close(
                    y.float(), torch.softmax(view.float(), 1), rtol=tolerance, atol=tolerance
                )
        out = torch.empty_like(x)
        self.assertIs(self.softmax(x, out=out), out)

    def test_short_way(self):
        """Calls after the first one."""
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        for _ in range(3):
            for shape in ((9, 100), (4, 7)):
                x = self.rand(*shape)
                want = torch.softmax(x, 1)
                torch.testing.assert_close(softmax(x), want)
                torch.testing.assert_close(softmax(x.t().contiguous().t()), want)
                out, back = torch.empty_like(x), torch.empty(*reversed(shape), device=self.device).t()
                self.assertIs(softmax(x, out=out), out)
                self.assertIs(softmax(x, out=back), back)
                torch.testing.assert_close(out, want)
                torch.testing.assert_close(back, want)
            with self.assertRaisesRegex(tile.ArgumentError, "requires a gradient"):
                softmax(x.requires_grad_())
            with self.assertRaisesRegex(tile.ArgumentError, "no element type"):
                softmax(x.detach().to_sparse())
            with self.assertRaisesRegex(tile.ArgumentError, "overlaps"):
                softmax(x.detach(), out=x.detach())

    def test_short_way_between_numpy(self):
        """Calls of one kernel with tensors and with NumPy arrays, in turns."""
        need_cpu(self)
        softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
        for shape in ((9, 100), (4, 7), (9, 100)):
            x = self.rand(*shape)
            want = torch.softmax(x, 1)
            torch.testing.assert_close(softmax(x), want)
            got = softmax(x.cpu().numpy())
            self.assertIsInstance(got, np.ndarray)
            torch.testing.assert_close(torch.from_numpy(got), want.cpu())

    def test_inout(self):
        x, b = self.rand(5, 40), self.rand(40)
        total = torch.zeros_like(x)
        y = self.update(x, b, total, 3.0, 1)
        want = x * 3 + 1 + b
        torch.testing.assert_close(total, want)
        torch.testing.assert_close(y, parts(want))

    def test_wrong_arguments(self):
        x = self.rand(3, 8)
        with self.assertRaisesRegex(tile.ArgumentError, "requires a gradient"):
            self.softmax(x.requires_grad_())
        with torch.no_grad():
            self.softmax(x)
        with self.assertRaisesRegex(tile.ArgumentError, "no element type"):
            self.softmax(x.detach().to(torch.complex64))
        with self.assertRaisesRegex(tile.ArgumentError, "no element type"):
            self.softmax(x.detach().to_sparse())
        with self.assertRaisesRegex(tile.ArgumentError, "for which there are no kernels"):
            self.softmax(torch.empty(3, 8, device="meta"))

    def operator(self, name):
        return getattr(torch.ops.tile_tests, name)

    def test_operator(self):
        op = self.operator("softmax")
        self.assertEqual(str(op.default._schema), "tile_tests::softmax(Tensor X) -> Tensor")
        x = self.rand(6, 33)
        torch.testing.assert_close(op(x), torch.softmax(x, 1))
        self.assertEqual(tuple(op(torch.empty(4, 5, device="meta")).shape), (4, 5))
        torch.library.opcheck(op.default, (x,))

    def test_operator_that_mutates(self):
        op = self.operator("update")
        self.assertEqual(
            str(op.default._schema),
            "tile_tests::update(Tensor X, Tensor? B, Tensor(a!) L, float s=2., SymInt t=0) -> Tensor",
        )
        x, b = self.rand(5, 40), self.rand(40)
        for bias in (b, None):
            total = torch.zeros_like(x)
            y = op(x, bias, total, t=3)
            want = x * 2 + 3 + (0 if bias is None else b)
            torch.testing.assert_close(total, want)
            torch.testing.assert_close(y, parts(want))
            torch.library.opcheck(op.default, (x, bias, torch.zeros_like(x)))

    def test_compile(self):
        softmax, update = self.operator("softmax"), self.operator("update")

        def f(x, total):
            y = update(x * 2, None, total, s=1.0)
            return softmax(total) + y.sum(), total * 2

        compiled = torch.compile(f, fullgraph=True, backend="aot_eager", dynamic=True)
        for m in (3, 4, 7):
            x = self.rand(m, 40)
            got, want = compiled(x, torch.zeros_like(x)), f(x, torch.zeros_like(x))
            torch.testing.assert_close(got, want)

    def test_export(self):
        softmax = self.operator("softmax")

        class Model(torch.nn.Module):
            def forward(self, x):
                return softmax(x + 1)

        x = self.rand(4, 16)
        program = torch.export.export(Model(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("m", min=2)}})
        calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
        self.assertIn("tile_tests.softmax.default", calls)
        x = self.rand(9, 16)
        torch.testing.assert_close(program.module()(x), torch.softmax(x + 1, 1))

    def test_gradient_of_an_operator(self):
        op = self.operator("softmax_with_gradient")
        x = self.rand(3, 8).requires_grad_()
        (op(x) ** 2).sum().backward()
        mine, x.grad = x.grad, None
        (torch.softmax(x, 1) ** 2).sum().backward()
        torch.testing.assert_close(mine, x.grad)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Gpu(Cpu):
    device = "cuda"

    def test_streams_and_graphs(self):
        x = self.rand(64, 100)
        self.softmax(x)
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = self.softmax(x)
        stream.synchronize()
        torch.testing.assert_close(y, torch.softmax(x, 1))
        with torch.cuda.graph(graph):
            y = self.softmax(x)
        x.copy_(self.rand(64, 100))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(y, torch.softmax(x, 1))

    def test_two_devices(self):
        x = torch.rand(3, 8)
        torch.testing.assert_close(self.softmax(x.cuda()).cpu(), torch.softmax(x, 1))
        with self.assertRaisesRegex(tile.ArgumentError, "on another device"):
            self.softmax(x.cuda(), out=x)

    def test_kernel_of_both_devices(self):
        need_cpu(self)
        x = torch.rand(3, 8)
        torch.testing.assert_close(self.softmax(x), self.softmax(x.cuda()).cpu())


def setUpModule():
    softmax = tile.load(os.path.join(KERNELS, "softmax.tile"))["softmax"]
    softmax.torch_op("tile_tests::softmax")
    softmax.torch_op("tile_tests::softmax_with_gradient")
    tile.loads(UPDATE)["update"].torch_op("tile_tests::update")

    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(1, keepdim=True))

    torch.library.register_autograd(
        "tile_tests::softmax_with_gradient",
        backward,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )


if __name__ == "__main__":
    unittest.main()
