#!/bin/bash
# python.sh numpy|torch|reference|arranged|ported|doc|wheel ROOT LIBRARY: one test of the Python package. Exit status 77 and a
# line SKIP where the packages it needs are not there.
set -u
test=$1 root=$2 library=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export TILE_LIBRARY=$library TILE_KERNELS=$root/examples/kernels TILE_CACHE_DIR=$work/cache
unset TILE_DEBUG

skip() { printf 'SKIP: %s\n' "$*"; exit 77; }
# The package with its bytecode, as pip installs it.
package() {
    mkdir "$work/package" && cp -R "$root/bindings/python/tile" "$work/package/" || exit 1
    "$1" -m compileall -q -f "$work/package" || exit 1
    export PYTHONPATH=$work/package
}
# The first interpreter that can import these modules.
python_with() {
    local python
    for python in ${TILE_PYTHON:+"$TILE_PYTHON"} python3 /usr/bin/python3; do
        "$python" -c "import $1" 2>/dev/null && { printf '%s' "$python"; return; }
    done
    return 1
}

case $test in
    numpy)
        python=$(python_with numpy) || skip "no python3 with NumPy (Debian: python3-numpy)"
        package "$python"
        "$python" -W error::ResourceWarning "$root/bindings/python/tests/test_numpy.py" ;;
    torch)
        python=$(python_with torch) || skip "no python3 with PyTorch (pip install torch; TILE_PYTHON names the interpreter)"
        package "$python"
        "$python" "$root/bindings/python/tests/test_torch.py" ;;
    ported)
        python=$(python_with numpy) || skip "no python3 with NumPy (Debian: python3-numpy)"
        package "$python"
        PYTHONDONTWRITEBYTECODE=1 "$python" "$root/bench/ported/run.py" --check --seeds=1 ;;
    arranged)
        python=$(python_with numpy) || skip "no python3 with NumPy (Debian: python3-numpy)"
        package "$python"
        PYTHONDONTWRITEBYTECODE=1 "$python" "$root/tests/python/arranged/run.py" ;;
    reference)
        python=$(python_with numpy) || skip "no python3 with NumPy (Debian: python3-numpy)"
        package "$python"
        PYTHONDONTWRITEBYTECODE=1 "$python" "$root/tests/python/reference/run.py" 1 80 ;;
    doc)
        python=$(python_with numpy) || skip "no python3 with NumPy (Debian: python3-numpy)"
        package "$python"
        cd "$TILE_KERNELS" && "$python" "$root/tests/python/page.py" "$root/docs/python.md" ;;
    wheel)
        python=$(python_with numpy,pip) || skip "no python3 with pip and NumPy (Debian: python3-pip, python3-numpy)"
        cp -R "$root/bindings/python" "$work/python"
        # What is installed uses the library in the wheel, and nothing of the tree.
        pip() { "$python" -m pip --disable-pip-version-check "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
        pip wheel --no-index --no-deps --wheel-dir "$work/dist" "$work/python"
        [ "$(ls "$work/dist")" = "$(cd "$work/dist" && ls tilec-*-py3-none-linux_*.whl)" ] || { ls "$work/dist"; exit 1; }
        pip install --no-index --no-deps --target "$work/site" "$work"/dist/*.whl
        pip install --no-index --no-deps --target "$work/tree" "$work/python"
        unset TILE_LIBRARY
        for site in "$work/site" "$work/tree"; do
            [ -s "$site/tile/libtile.so.0" ] && [ -e "$site/tile/py.typed" ] || { find "$site"; exit 1; }
            (cd "$work" && PYTHONPATH=$site "$python" -c '
import os, numpy, tile
from tile import _lib
k = tile.load(os.path.join(os.environ["TILE_KERNELS"], "softmax.tile"))["softmax"]
assert abs(k(numpy.ones((3, 8), numpy.float32)) - 1 / 8).max() < 1e-6
assert _lib.library()._name.startswith(os.environ["PYTHONPATH"]), _lib.library()._name
assert os.path.dirname(tile.__file__) == os.path.join(os.environ["PYTHONPATH"], "tile")
print(tile.__version__, _lib.library()._name)') || exit 1
        done
        TILE_LIBRARY=/no/such/file "$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import wheel_backend
try: wheel_backend.build_wheel(sys.argv[1])
except SystemExit as error: assert "names /no/such/file, which is no file" in str(error); sys.exit(0)
sys.exit(1)' "$work/python" ;;
esac
