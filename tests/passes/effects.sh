#!/bin/bash
# effects.sh TILE-OPT EXAMPLES PASSES.DEF: each pass, shown to do something on three examples at least: what the census counts with the pass
# is less (or more) than what it counts with that one pass left out. Every pass of the table must stand below, but unroll: every loop of the
# examples pipelines its loads and therefore stays a loop (unroll.ir has the loops that do not). Of mask-trim two suffice: one example only
# has masks with bounds from memory.
#
#     PASS FIELD <|> EXAMPLE [options of tile-opt]
tool=$1 examples=$2 table=$3
failures=0
declare -A shown

census() {      # census FIELD ARGUMENTS...: the number behind the field in what --census prints
    local field=$1 out
    shift
    out=$("$tool" --quiet --census "$@" 2>/dev/null) || { echo "tile-opt $* failed" >&2; echo -1; return; }
    case $field in
    loop-masked) field='in main loops: masked' ;;
    loop-selects) field='in main loops: masked [0-9]* selects' ;;
    esac
    sed -n "s/^census \(.* \)\?$field \([0-9]*\).*/\2/p" <<<"$out" | head -1
}

while read -r pass field sign example options; do
    case $pass in ''|'#'*) continue ;; esac
    # shellcheck disable=SC2086
    case $pass in
    approx) with=$(census "$field" $options --approx "$examples/$example.tile") without=$(census "$field" $options "$examples/$example.tile") ;;
    *) with=$(census "$field" $options "$examples/$example.tile") without=$(census "$field" $options --skip-pass="$pass" "$examples/$example.tile") ;;
    esac
    printf '%-13s %-28s %-13s %4s without, %4s with\n' "$pass" "$example" "$field" "$without" "$with"
    if [ -z "$with" ] || [ "$with" = -1 ] || [ "$without" = -1 ] || ! [ "$with" "$([ "$sign" = '<' ] && echo -lt || echo -gt)" "$without" ]; then
        echo "FAIL: $pass on $example: $field is $without without the pass and $with with it"
        failures=$((failures + 1))
    else
        shown[$pass]+=" $example"
    fi
done <<'T'
inline       calls        < gemm_bias_gelu
inline       calls        < gemm_gated
inline       calls        < swiglu
inline       calls        < dropout
check        asserts      < swiglu
check        asserts      < max_pool
check        asserts      < conv2d            -DR=3 -DS=3
specialize   asks         < softmax           -DM=1 -DN=64
specialize   asks         < vector_add        -DN=1000
specialize   asks         < gemm              -DM=128 -DN=64 -DK=512
specialize   asks         < attention         -DD=64 -DM=64 -DN=1024
fold         instrs       < attention         -DD=64
fold         instrs       < conv2d            -DR=3 -DS=3
fold         instrs       < layer_norm        -DN=1024
cse          instrs       < attention         -DD=64
cse          instrs       < gemm
cse          instrs       < max_pool
dce          instrs       < attention         -DD=64
dce          instrs       < max_pool
dce          instrs       < conv2d            -DR=3 -DS=3
licm         in-loops     < attention         -DD=64
licm         in-loops     < gemm
licm         in-loops     < layer_norm        --kernel=layer_norm_long
load-order   permute      < attention         -DD=64
load-order   permute      < attention_decode  -DD=64
load-order   permute      < conv2d            -DR=3 -DS=3 --kernel=conv2d_nhwc
repeated-rows loads      > ../../tests/run/kernels/weights_gathered --target=cuda:sm_90a
repeated-rows loads      > ../../tests/run/kernels/weights_by_columns --target=hip:gfx942
repeated-rows loads      > ../../tests/run/kernels/weights_in_words --target=cpu
sliced-loads loads       > ../../tests/run/kernels/heads_mixed --target=cuda:sm_90a
sliced-loads loads       > ../../tests/run/kernels/slices_of_windows --target=hip:gfx942
sliced-loads loads       > ../../tests/run/kernels/batched_product --target=hip:gfx942
batches      instrs      < ../../tests/run/kernels/batched_product --target=cuda:sm_90a
batches      instrs      < ../../tests/run/kernels/chained_batches --target=cuda:sm_80
batches      instrs      < ../../tests/run/kernels/batch_of_auto -DM=16 -DN=16 -DK=16 --target=cuda:sm_90a
constant-matrices instrs > ../../bench/ported/kernels/dct8x8 -DTX=32 --target=cuda:sm_90a
constant-matrices instrs > ../../tests/run/kernels/block_transforms --target=cuda:sm_90a
constant-matrices instrs > ../../tests/run/kernels/haar_rows --target=hip:gfx942
transpose-products permute > ../../tests/run/kernels/weights_along_k --target=cuda:sm_90a
transpose-products permute < ../../tests/run/kernels/weights_of_groups --target=cuda:sm_90a
transpose-products ordered > ../../tests/run/kernels/weights_along_n --target=cuda:sm_90a
mask-trim    instrs       > attention_packed  -DD=64
mask-trim    instrs       > ../../tests/run/kernels/masks_from_memory -DD=32 --target=cuda:sm_80
exp2         exp          < attention         -DD=64
exp2         exp          < attention_window  -DD=64
exp2         exp          < softmax           -DN=1024
mask-peel    loop-masked  < attention         -DD=64
mask-peel    loop-masked  < gemm
mask-peel    loop-masked  < layer_norm        --kernel=layer_norm_long
mask-peel    loop-selects < attention         -DD=64
divisibility masked       < gemm              --div=M:128 --div=N:128 --div=K:32
divisibility masked       < vector_add        --div=N:1024
divisibility masked       < topk              -DN=64 -DK=8
narrow       index64      < attention         -DD=64 --fits32
narrow       index64      < gemm              --fits32
narrow       index64      < blur              --fits32
half-integers instrs     > ../../bench/ported/kernels/bayer_demosaic --target=cuda:sm_90a
half-integers instrs     > ../../tests/emu/half_integers/sums --target=cuda:sm_90a
half-integers instrs     > ../../tests/emu/half_integers/branches --target=cuda:sm_80
approx       approx       > attention         -DD=64
approx       approx       > softmax           -DN=64
approx       approx       > gemm_gated
approx       approx       > swiglu
parts        loops        > softmax           -DN=500000 --target=cuda:sm_80
parts        loops        > layer_norm        -DN=500000 --target=cuda:sm_80
parts        loops        > rms_norm_matrix   -DN=500000 --target=cuda:sm_80
flatten      instrs       < ../../tests/run/kernels/group_rows -DC=1 -DS=900 --target=cuda:sm_90a
flatten      instrs       < ../../tests/run/kernels/group_channels -DN=1 -DS=49 -DG=1 --target=cuda:sm_90a
flatten      instrs       < ../../tests/run/kernels/unit_axis_rows -DN=100 --target=cuda:sm_90a
collapse     one-row      > silu              -DM=1
collapse     one-row      > ../../tests/run/kernels/one_row_of_codes -DM=1
collapse     one-row      > ../../tests/run/kernels/one_row_in_place -DM=1
edge-program instrs       > vector_add        --contiguous --target=cuda:sm_90a
edge-program instrs       > dropout           --contiguous --target=cuda:sm_90a
edge-program instrs       > ../../bench/ported/kernels/lion --contiguous --target=cuda:sm_90a
empty-loops  instrs       > attention_cross   -DD=64
empty-loops  instrs       > attention_window  -DD=64
empty-loops  instrs       > attention_sink    -DD=64
grouped-steps loops       > ../../bench/ported/kernels/batch_norm_statistics -DTL=1024 --target=cuda:sm_90a
grouped-steps loops       > ../../tests/run/kernels/combine_steps -DT=16 --target=cuda:sm_90a
grouped-steps loops       > ../../tests/run/kernels/moments_by_groups --target=cuda:sm_90a
pack         instrs       > softmax           -DN=64 --target=cuda:sm_90a
pack         instrs       > layer_norm        -DN=64 --target=cuda:sm_90a
pack         instrs       > rms_norm_matrix   -DN=64 --target=cuda:sm_90a
paired-programs stores > ../../tests/run/kernels/paired_scales
paired-programs stores > ../../tests/run/kernels/paired_sums
paired-programs stores > ../../tests/run/kernels/paired_heads --target=cuda:sm_90a
accumulate   instrs       < ../../tests/run/kernels/sum_of_products
accumulate   fma          < ../../tests/run/kernels/attention_adding -DD=64
accumulate   instrs       < ../../tests/run/kernels/lora_by_columns -DR=16
factors      fma          < ../../tests/run/kernels/scales_in_steps
factors      in-loops     < ../../tests/run/kernels/scaled_steps
factors      in-loops     < ../../tests/run/finds/scaled_blocks
pad-products instrs       > ../../tests/run/kernels/lora_by_columns -DR=8 --target=cuda:sm_90a
pad-products instrs       > ../../tests/run/kernels/two_adapters -DR=8 --target=cuda:sm_90a
pad-products instrs       > ../../tests/run/kernels/low_rank -DR=24 --target=cuda:sm_90a
contract     fma          > attention         -DD=64
contract     fma          > layer_norm        -DN=1024
contract     fma          > rope              -DD2=32 --kernel=rope
speculate        exp2         > softmax           -DN=4096 --target=cpu
speculate        fma          > layer_norm        -DN=4096 --target=cpu
speculate        fma          > group_norm        -DC=8 -DS=256 --target=cpu
latency      buffers      < attention         -DD=128 --target=cuda:sm_86
latency      buffers      < gemm              -DSTAGES=8 --target=cuda:sm_86
latency      buffers      < gemm_gated        -DSTAGES=9 --target=cuda:sm_86
remap        remaps       > gemm
remap        remaps       > gemm_gated
remap        remaps       > gemm_residual
T

for pass in $(sed -n 's/^PASS([A-Z0-9_]*, *"\([a-z0-9-]*\)".*/\1/p' "$table"); do
    n=$(tr ' ' '\n' <<<"${shown[$pass]:-}" | sort -u | grep -c .)
    [ "$n" -ge 3 ] || [ "$pass" = unroll ] || { [ "$pass" = mask-trim ] && [ "$n" = 2 ]; } || { echo "FAIL: $pass is shown on $n examples, not 3"; failures=$((failures + 1)); }
done
exit $((failures > 0))
