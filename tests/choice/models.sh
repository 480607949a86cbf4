#!/bin/bash
# models.sh SOURCE_FOLDER: device_models.awk takes a model that is complete or `like` another one, and refuses the others with a reason.
set -u
here=$1/runtime/choice failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
model() { awk -f "$here/device_models.awk" "$here/device_model.def" "$here/models/h100.model" "$1" 2>"$work/why"; }
refused() {         # refused TEXT: the model on standard input
    cat >"$work/card.model"
    if model "$work/card.model" >"$work/out"; then
        echo "FAIL: taken, but expected: $1"; failures=$((failures + 1))
    elif ! grep -qF "$1" "$work/why"; then
        echo "FAIL: expected \"$1\", found: $(cat "$work/why")"; failures=$((failures + 1))
    fi
}
printf 'like h100\ntargets cuda:sm_80\nmeasured no\nmemory 1234\n' >"$work/card.model"
model "$work/card.model" | grep -q '{ .name = "card", .targets = "cuda:sm_80", .measured = false,.* .memory = 1234,.* .busy = 0.56,' ||
    { echo "FAIL: a model like another one"; failures=$((failures + 1)); }
refused "no value for" <<<$'targets cuda:sm_80\nmemory 1'
refused "unknown field memroy" <<<$'like h100\ntargets cuda:sm_80\nmemroy 1'
refused "memory is given twice" <<<$'like h100\ntargets cuda:sm_80\nmemory 1\nmemory 2'
refused "expected \`NAME VALUE\`" <<<$'like h100\ntargets cuda:sm_80\nmemory 1e'
refused "no such model" <<<$'like h900\ntargets cuda:sm_80'
refused "no targets" <<<$'like h100\nmemory 1'
exit $((failures > 0))
