#!/bin/bash
# models.sh SOURCE_FOLDER: device_models.awk takes a model that is complete or `like` another one, and refuses the others with a reason.
set -u
here=$1/runtime/choice failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
model() { awk -f "$here/estimate/device_models.awk" "$here/estimate/device_model.def" "$here/models/h100.model" "$1" 2>"$work/why"; }
refused() {         # refused TEXT: the model on standard input
    cat >"$work/card.model"
    if model "$work/card.model" >"$work/out"; then
        echo "FAIL: taken, but expected: $1"; failures=$((failures + 1))
    elif ! grep -qF "$1" "$work/why"; then
        echo "FAIL: expected \"$1\", found: $(cat "$work/why")"; failures=$((failures + 1))
    fi
}
card=$'like h100\ntargets cuda:sm_80\ncard Some Card\nmultiprocessors 7\nl2_bytes 1048576\nshared_bytes 65536\n'
printf '%smeasured no\nmemory 1234\n' "$card" >"$work/card.model"
model "$work/card.model" | grep -q '{ .name = "card", .card = "Some Card", .targets = "cuda:sm_80", .measured = false, .multiprocessors = 7,.* .memory = 1234,.* .busy = 0.56,' ||
    { echo "FAIL: a model like another one"; failures=$((failures + 1)); }
refused "no value for" <<<"${card#*$'\n'}memory 1"
refused "no value for multiprocessors" <<<$'like h100\ntargets cuda:sm_80\ncard Some Card\nl2_bytes 1\nshared_bytes 1'
refused "unknown field memroy" <<<"${card}memroy 1"
refused "memory is given twice" <<<"${card}"$'memory 1\nmemory 2'
refused "expected \`NAME VALUE\`" <<<"${card}memory 1e"
refused "no such model" <<<$'like h900\ntargets cuda:sm_80'
refused "no targets" <<<"${card/targets cuda:sm_80$'\n'/}"
refused "no card" <<<"${card/card Some Card$'\n'/}"
exit $((failures > 0))
