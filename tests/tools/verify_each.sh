#!/bin/bash
# Every example under --verify-each for one target: at each assumption about launches, to the emitted text.
# usage: verify_each.sh TILEC SOURCE_DIR TARGET
tilec=$1 source=$2 target=$3
case $target in cpu*) emit=llvm ;; hip*) emit=hip ;; *) emit=cuda ;; esac
failed=0 runs=0
for file in "$source"/examples/kernels/*.tile; do
    for way in "best -O2" "aligned -O1" "any -O2"; do
        set -- $way
        runs=$((runs + 1))
        message=$("$tilec" "$file" --target="$target" --verify-each --assume="$1" "$2" --emit=$emit -o /dev/null 2>&1 >/dev/null) && continue
        # A kernel that a target cannot hold is refused with a reason; what verification finds is a defect.
        case $message in *"invalid IR"* | *"internal error"* | "") echo "FAIL $(basename "$file") --assume=$1 $2: $message" ; failed=$((failed + 1)) ;;
        *) echo "refused $(basename "$file") --assume=$1 $2: $(echo "$message" | head -1)" ;; esac
    done
done
# Tiles that no GPU holds, which must be refused for their size.
runs=$((runs + 1))
large=("$source/examples/kernels/attention_differential.tile" -D TN=1024 -D D=64 -D DV=128 -D T=f16)
message=$("$tilec" "${large[@]}" --target="$target" --verify-each --emit=$emit -o /dev/null 2>&1 >/dev/null)
case $target:$message in
cpu:) ;;
*" bytes of shared memory, "*) ;;
*) echo "FAIL attention_differential -D TN=1024: $message" ; failed=$((failed + 1)) ;;
esac
echo "$runs runs, $failed failed"
[ "$failed" = 0 ]
