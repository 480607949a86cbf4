#!/bin/bash
# sim_plot.sh: the picture of `tilec sim --plot`: to the letter for a small launch; for grids of every form,
# each map shows all chiplets that ran something, or says how many of them; axes have their extents, and texts
# lie within the picture.
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel one(in f32 X[A], out f32 Y[A]) grid (A) { let i = program_id(); store(Y[i], load(X[i])); }
kernel two(in f32 X[A, B], out f32 Y[A, B]) grid (A, B) { let (i, j) = program_id(); store(Y[i, j], load(X[i, j])); }
kernel three(in f32 X[A, B, C], out f32 Y[A, B, C]) grid (A, B, C)
{
    let (i, j, k) = program_id();
    store(Y[i, j, k], load(X[i, j, k]));
}
T
cat >check.py <<'T'
import re, sys
import xml.etree.ElementTree as tree
path, want = sys.argv[1], [int(x) for x in sys.argv[2].split(",")]
root = tree.parse(path).getroot()
tag = lambda e: e.tag.split("}")[-1]
groups = [e for e in root.iter() if tag(e) == "g" and e.get("shape-rendering")]
texts = ["".join(e.itertext()) for e in root.iter() if tag(e) == "text"]
got = [len({e.get("fill") for e in g.iter() if tag(e) == "rect"} - {"#dddddd"}) for g in groups]
assert got == want, (got, want)
notes = [x for x in texts if re.search(r"\d of \d+ chiplets$", x)]
assert len(notes) == (int(sys.argv[3]) if len(sys.argv) > 3 else 0), notes
assert {"0%", "25%", "50%", "75%", "100%", "hits"} <= set(texts), texts          # the scale of the bars
# and those of the maps
assert sum(x.startswith("axis ") for x in texts) >= 2 * len(groups) or "columns" in texts, texts
width, height = float(root.get("width")), float(root.get("height"))
for e in root.iter():
    if tag(e) == "text":
        x, y, size = float(e.get("x")), float(e.get("y")), float(e.get("font-size") or 12)
        assert 0 <= x <= width and size * 0.7 <= y <= height, (e.attrib, width, height)
for g in groups:
    for e in g.iter():
        if tag(e) == "rect":
            assert float(e.get("x")) + float(e.get("width")) <= width
            assert float(e.get("y")) + float(e.get("height")) <= height
T
plot() { # CHIPLETS NOTES KERNEL OPTION...
    local want=$1 notes=$2 kernel=$3
    shift 3
    "$tilec" sim k.tile --kernel="$kernel" "$@" --plot=p.svg >out.txt 2>&1 ||
        fail "$kernel $*: $(cat out.txt)"
    python3 check.py p.svg "$want" "$notes" || fail "the plot of $kernel $*"
}
# batches of one chiplet each: another pair of axes; a first axis that is as long as there are chiplets; few
# programs; long axes, of which some are drawn
plot 8,8,8 0 three --set A=4 --set B=4 --set C=16 --remap=none,xcd,chunk --device=mi300x
grep -q '>axis 0 at 0<\|>axis 1 at 0<' p.svg || fail "no plane along axis 2"
plot 8,8 0 three --set A=8 --set B=6 --set C=8 --remap=none,xcd --device=mi325x
plot 8,8 0 two --set A=512 --set B=8 --remap=none,xcd --device=mi355x
grep -q '>1 in 7 downwards<' p.svg || fail "rows that are left out are not said"
plot 8,8 0 two --set A=3 --set B=700 --remap=none,xcd --device=mi300x
plot 8,8 0 one --set A=4000 --remap=none,xcd --device=mi300x
plot 5,5 0 one --set A=5 --remap=none,xcd --device=mi300x
plot 1 0 two --set A=16 --set B=16 --remap=none --device=h100
# a slice cannot show all: a grid of planes that belong to one chiplet each
cat >device.txt <<'T'
like = mi300x
chiplets = 40
T
plot 20,40 1 three --set A=2 --set B=2 --set C=32 --remap=none,xcd --device=./device.txt
# to the letter
"$tilec" sim k.tile --kernel=three --set A=4 --set B=2 --set C=8 --remap=none,xcd --remap='w/2*2' \
    --device=mi300x --plot=golden.svg >/dev/null 2>&1
diff -u "$root/tests/tools/sim_plot.expected" golden.svg || fail "the plot is not that of sim_plot.expected"
finish
