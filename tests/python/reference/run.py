"""run.py [FIRST [COUNT]]: random kernels on the CPU against an evaluation in Python, which shares neither
front end nor interpreter with the compiler. Prints the kernels that differ; status 1 if there are any."""

import sys
import warnings

import numpy as np

import programs
import tile


def difference(got, want):
    """Where the arrays differ first, or None."""
    for name, a in got.items():
        b = want[name]
        other = ~((a == b) | ((a != a) & (b != b)))
        if other.any():
            at = tuple(map(int, np.argwhere(other)[0]))
            return f"{name}{list(at)} = {a[at]}, want {b[at]}"
    return None


def check(seed, context):
    text, tensors, run = programs.make(seed)
    got, want = ({n: a.copy() for n, a in tensors.items()} for _ in range(2))
    run(want)
    try:
        k = tile.loads(text, context=context)["k"]
        k(*got.values())
        wrong = difference(got, want)
    except tile.Error as error:
        wrong = str(error)
    if wrong:
        print(f"FAIL seed {seed}: {wrong}\n{({n: a.shape for n, a in tensors.items()})}\n{text}")
    return not wrong


def main(first=1, count=50):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    context = tile.Context("cpu", cache=False)
    failed = sum(not check(seed, context) for seed in range(first, first + count))
    print(f"{count} random kernels against Python, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
