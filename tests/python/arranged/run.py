#!/usr/bin/env python3
"""Kernels of tests/run/kernels against references in Python: `run.py [REGEX]`.

The interpreter without passes, by which the other tests judge, runs what the front end made of a text. These
references know of neither. Heads of files, draws and tolerances are those of bench/ported.
Exit status: 0, or 1 if a result is wrong.
"""

import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path[:0] = [str(ROOT / "bench/ported"), str(HERE)]
import expected  # noqa: E402
import fields  # noqa: E402
import run as ported  # noqa: E402
from suite import Case, tile  # noqa: E402

DRAWS = 3


OWN = {**vars(expected), **vars(fields)}


def names() -> list[str]:
    """The functions that are references of kernels."""
    kernels = ROOT / "tests/run/kernels"
    return [n for n in sorted(OWN) if (kernels / f"{n}.tile").exists()]


def main() -> int:
    warnings.simplefilter("ignore", tile.Warning)
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    found = [n for n in names() if wanted.search(n)]
    good = 0
    for name in found:
        case = Case(ROOT / f"tests/run/kernels/{name}.tile")
        case.reference = OWN[name]
        good += ported.check(case, DRAWS)
    print(f"{good} of {len(found)} kernels agree with their references on the CPU")
    return 0 if good == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
