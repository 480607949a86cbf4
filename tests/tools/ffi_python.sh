#!/bin/bash
# ffi_python.sh: the commands of docs/embedding.md for tvm-ffi, in Python with NumPy's arrays.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-python3}
"$python" -c 'import numpy, tvm_ffi' 2>/dev/null || { echo "SKIP: $python has no tvm_ffi and numpy"; exit 77; }
ln -s "$root/examples" examples
PATH=$(dirname "$tilec"):$PATH
# The two blocks of the document, as they stand there.
section=$(awk '/^## From Python, PyTorch, JAX/ { inside = 1; next } /^## / { inside = 0 } inside' "$root/docs/embedding.md")
block() { awk -v head="\`\`\`$1" '$0 == head { inside = 1; next } /^```$/ { if (inside) exit } inside' <<<"$section"; }
expect 0 "" bash -c "$(block sh)"
block python >document.py
grep -q 'load_module("./k.so").softmax(x, y)$' document.py || fail "the document does not load ./k.so: $(cat document.py)"
echo 'assert np.abs(y - 1 / 40).max() < 1e-6' >>document.py
expect 0 "" "$python" document.py
cp "$root/tests/tools/ffi.tile" k.tile
expect 0 "" tilec k.tile --shared -o k.so
# A path without a folder is dlopen's to find.
printf 'import tvm_ffi\ntvm_ffi.load_module("k.so")\n' >bare.py
expect 1 "k.so: cannot open shared object file" "$python" bare.py
LD_LIBRARY_PATH=. expect 0 "" "$python" bare.py
cat >check.py <<'P'
import numpy as np
import tvm_ffi

module = tvm_ffi.load_module("./k.so")


def expected(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def raises(kind, text, *args):
    try:
        module.softmax(*args)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)


x = np.random.default_rng(1).standard_normal((30, 40)).astype(np.float32)
y = np.empty_like(x)
module.softmax(x, y)
assert np.abs(y - expected(x)).max() < 1e-6
module.softmax(x[::2], y[1::2])
assert np.abs(y[1::2] - expected(x[::2])).max() < 1e-6
h = np.empty(x.shape, np.float16)
module.softmax(x.astype(np.float16), h)
assert np.abs(h - expected(x)).max() < 1e-3
raises(ValueError, "softmax<T=f32, N=40>: dimension M is 30 in X (axis 0) but 29 in Y (axis 0)", x, y[1:])
raises(TypeError, "argument 2 (Y): elements are f64, the kernel takes f32", x, y.astype(np.float64))

raises(ValueError, "takes 2 arguments, 3 were given", x, y, y)
print("as expected")
P
expect 0 "as expected" "$python" check.py
finish
