"""Runs the Python blocks of a page, in order and in one program. Blocks of ```python torch run where PyTorch is."""

import importlib.util
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    blocks = re.findall(r"^```python( torch)?\n(.*?)^```$", file.read(), re.S | re.M)
names, done = {}, 0
for number, (torch, block) in enumerate(blocks):
    if not torch or importlib.util.find_spec("torch"):
        exec(compile(block, f"{sys.argv[1]}, block {number + 1}", "exec"), names)
        done += 1
print(f"{done} of {len(blocks)} blocks")
sys.exit(done < 5)
