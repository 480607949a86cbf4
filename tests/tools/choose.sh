#!/bin/bash
# choose.sh COSTS SOURCE: which configurations are chosen where no table speaks (docs/tuning.md), by estimate, for an H100.
costs=$1 k=$2/examples/kernels failed=0
choice() { "$costs" --choose "$k/$1.tile" "$2" cuda:sm_90a "${@:3}"; }
expect() { [[ "$2" == $1 ]] || { echo "expected $1, chosen: $2"; failed=1; }; }
# rows that begin anywhere go by shifted vectors: a thread must have whole rows' worth of them under way; aligned ones as declared
expect '*TN=1024*' "$(choice silu silu M=131072 N=1009)"
expect '*TN=1024*' "$(choice silu silu M=32768 N=5001)"
expect 'as declared*' "$(choice silu silu M=32768 N=4096)"
expect 'as declared*' "$(choice softmax softmax M=131072 N=1009)"
exit $failed
