"""tree_sitter_test.py ROOT TILEC: tree-sitter's own tool makes a parser of editors/tree-sitter-tile, which takes the
`.tile` files of the tree that the compiler's parser takes and no others. The same holds of 200 programs in which a
token is left out, doubled or exchanged. TREE_SITTER names the tool. Exit status 77: there is none."""

import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

root, tilec = sys.argv[1:]
tool = os.environ.get("TREE_SITTER") or shutil.which("tree-sitter")
if not tool or not shutil.which("node") or not (shutil.which("cc") or shutil.which("gcc")):
    print("SKIP: no tree-sitter (or no node, or no C compiler)")
    sys.exit(77)

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|\w+|\.\.|\+:|[-+*/%&|^<>=!]=|&&|\|\||<<=?|>>=?|\S', re.S)


def changed(text, count):
    """The program with one token left out, doubled or exchanged, in `count` ways."""
    tokens = [token for token in TOKEN.findall(text) if not token.startswith(("//", "/*"))]
    chance = random.Random(1)
    for _ in range(count):
        at, other, some = chance.randrange(len(tokens)), chance.choice(tokens), list(tokens)
        some[at : at + 1] = chance.choice(([], [other, some[at]], [other]))
        yield " ".join(some)


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


with tempfile.TemporaryDirectory() as work:
    os.environ.update(HOME=work, XDG_CACHE_HOME=work + "/cache", XDG_CONFIG_HOME=work + "/config")
    grammar = shutil.copytree(f"{root}/editors/tree-sitter-tile", work + "/grammar")
    code, out = run([tool, "generate"], grammar)
    if code:
        sys.exit(f"FAIL: tree-sitter generate\n{out}")
    files = [
        path
        for folder in ("examples", "bench", "tests", "tools")
        for path in sorted(glob.glob(f"{root}/{folder}/**/*.tile", recursive=True))
    ]
    with open(f"{root}/tests/tools/fmt/blanks.expected", encoding="utf-8") as file:
        for number, text in enumerate(changed(file.read(), 200)):
            files.append(f"{work}/changed{number}.tile")
            with open(files[-1], "w", encoding="utf-8") as to:
                to.write(text)
    with open(work + "/paths", "w", encoding="utf-8") as to:
        to.write("\n".join(files) + "\n")
    _, out = run([tool, "parse", "--quiet", "--paths", work + "/paths"], grammar)
    refused = {line.split("\t")[0].strip() for line in out.splitlines() if "(ERROR" in line or "(MISSING" in line}
    _, out = run([tilec, "fmt", "--check", *files], root)
    errors = dict(re.findall(r"^(.+?):\d+:\d+: (error: .*)$", out, re.M)[::-1])
    failures = 0
    for path in files:
        # A limit of the compiler is no part of the grammar.
        if (path in errors) != (path in refused) and "nesting is too deep" not in errors.get(path, ""):
            failures += 1
            print(f"FAIL: {'only the compiler' if path in errors else 'only tree-sitter'} refuses {path}")
            if path.startswith(work):
                print(open(path, encoding="utf-8").read())
    taken = len(files) - len(errors)
    print(f"{len(files)} files, {taken} of them programs")
    if taken < 200 or len(files) - taken < 50:
        sys.exit("FAIL: too few files of one kind")
    sys.exit(failures > 0)
