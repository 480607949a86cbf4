#!/bin/bash
# former_test.sh SOURCE_FOLDER: former.sh notices a former name in each kind of place, and passes over the same words where they mean
# something else.
set -u
here=$(cd "$1" && pwd)/tests/structure
git --version >/dev/null 2>&1 || { echo "SKIP: no git"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$work" && git init -q . && mkdir -p ir passes/tile runtime/choice/search frontend/lower docs tests tools || exit 1
cp "$here/../../ir/former_names.def" ir/
failures=0

# planted FILE TEXT: one line that must be found; innocent FILE TEXT: one that must not
check() {
    printf '%s\n' "$2" >"$1" && git add -A
    found=$(bash "$here/former.sh" . | grep -c "^$1:")
    [ "$found" = "$3" ] || { echo "FAIL: $1: $2: found $found times, not $3"; failures=$((failures + 1)); }
    rm "$1" && git add -A
}
planted() { check "$1" "$2" 1; }
innocent() { check "$1" "$2" 0; }

planted runtime/choice/search/search.c '    if (!strcmp(name, "turns")) return LAST;'
planted runtime/choice/search/search.c '    static const char *const last[] = { "fill", "pingpong" };'
planted passes/tile/pipeline.c '    return pass_named("warp-roles");'
planted tests/a.ir '  hint occupancy = 2, split = 4'
planted tests/a.ir '  hint schedule = "loop 1 late 2"'
planted tests/a.tile '    grid (M) hint (warps = 4, roles = 0)'
planted tests/a.tile 'tune k { split in {1, 2}; key (M); }'
planted tests/a.sh 'tilec k.tile -D split=2'
planted tests/a.sh 'tilec k.tile --skip-pass=cse,halo'
planted tests/a.ir '// RUN: tile-opt --passes=guess %s'
planted tests/a.c '    tile_binding b = { "roles", TILE_BIND_INT, { .i = 0 } };'
planted docs/tuning.md 'The hints `warps` and `turns` are tried last.'
planted docs/passes.md '| fill-slots | cp_async_producer.c |'
planted docs/passes.md '## halo'
planted docs/schedule.md '- `programs tickets`: a CTA draws its programs from a counter.'
planted docs/schedule.md '- `load K ring`: through a ring of stages.'
planted docs/schedule.md '- `turns off`: consumer warpgroups issue products as they come.'

innocent frontend/lower/lower_call.c '    return lower_emit(l, loc, "split", OP_SLICE, &x, 1, attrs, t);'
innocent frontend/program.c '        { "shift", 1, "count" },'
innocent runtime/choice/search/search.c '    fill(rows, split);'
innocent tests/a.tile '    let y = shift(x, 1, axis = 0, fill = 9);'
innocent docs/language.md '| `shift(x, n, axis = k, fill = 0)` | any | and `fill` where there is none; shift(x, 0) is x |'
innocent docs/passes.md '| merge-loads | merge_loads.c | overlapping loads, a halo | merged |'
innocent docs/schedule.md '- `split_k N`: CTAs share a loop; the ring has a slot.'
innocent docs/schedule.md '- `load K stages N`: through a ring of N stages, ahead of the loop.'
[ $failures = 0 ] && echo "every planted name was found"
exit $((failures > 0))
