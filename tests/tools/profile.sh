#!/bin/bash
# profile.sh: the trace of `tilec bench --profile`: launches, and hardware counters where CUPTI is found. A
# driver and a CUPTI in memory stand in for NVIDIA's. SCRIPT TILEC SOURCE_FOLDER COMPILER FAKE_CUDA
. "$(dirname "$0")/lib.sh"
mkdir drivers && cp "$4" drivers/libcuda.so.1 && cp "$4" drivers/libnvrtc.so.13
$cc -std=gnu11 -O1 -shared -fPIC -I"$root" "$root/tests/tools/fake_cupti.c" -o cupti.so -ldl ||
    fail "the stand-in for CUPTI"
cat >k.tile <<'T'
kernel k(in f32 X[N], inout f32 Y[N], const int T = 8) grid (cdiv(N, T))
{
    let i = program_id();
    store(Y[i*T +: T], load(X[i*T +: T]) + load(Y[i*T +: T]));
}
ladder k { at (N = 64); step small "8 elements" (T = 8); step large "16 elements" (T = 16); }
T
export LD_LIBRARY_PATH=$work/drivers
bench() { "$tilec" bench k.tile --target=cuda --ladder --repeat=3 --profile=trace.json "$@"; }
# The launches of a step, and each counter at the first of them and 0 behind the last; the chip lacks the
# instructions of the tensor pipe.
cat >check.py <<'T'
import json, sys
events = json.load(open("trace.json"))["traceEvents"]
bars = [e for e in events if e["ph"] == "X"]
counts = [e for e in events if e["ph"] == "C"]
assert len(bars) == 6 and {e["name"] for e in bars} == {"k: small", "k: large"}, bars
names = sorted({e["name"] for e in counts})
if sys.argv[1] == "none":
    assert not counts, counts
    sys.exit()
assert names == ["dram__bytes_read.sum (byte)", "dram__bytes_write.sum (byte)",
                 "l1tex__data_bank_conflicts_pipe_lsu.sum (count)", "l1tex__t_sector_hit_rate.pct (percent)",
                 "lts__t_bytes.sum (byte)", "lts__t_sector_hit_rate.pct (percent)", "sm__cycles_elapsed.max (count)",
                 "sm__warps_active.avg.pct_of_peak_sustained_active (percent)",
                 "smsp__inst_executed.sum (count)"], names
for step in ("k: small", "k: large"):
    own = [e for e in bars if e["name"] == step]
    at = {e["name"]: e["args"] for e in counts if e["ts"] == own[0]["ts"]}
    assert len(at) == 9 and at["smsp__inst_executed.sum (count)"] == {"count": 1}, at        # one launch in a pass
    assert at["dram__bytes_write.sum (byte)"] == {"byte": 8000} and at["lts__t_bytes.sum (byte)"] == {"byte": 5000}, at
    end = own[-1]["ts"] + own[-1]["dur"]
    zeros = [e for e in counts if abs(e["ts"] - end) < 0.01]
    assert len(zeros) == 9 and all(list(e["args"].values()) == [0] for e in zeros), zeros
T
TILE_CUPTI=$work/cupti.so bench --output-dir out >out.txt 2>&1 || fail "bench with counters: $(cat out.txt)"
grep -q "counters\|fake CUPTI" out.txt && fail "something about counters: $(cat out.txt)"
python3 check.py all || fail "trace.json"
grep -q 'dram__bytes_read.sum: 7000 byte' out/k.log || fail "counters in the log: $(cat out/k.log)"
# without: one line, whatever the reason; the times are there
says() { # TEXT VARIABLE=VALUE
    rm -f trace.json
    (export "$2" && bench) >out.txt 2>&1 || fail "$2: $(cat out.txt)"
    [ "$(grep -c 'trace.json has no hardware counters: ' out.txt)" = 1 ] &&
        grep -qF "no hardware counters: $1" out.txt || fail "not once \"$1\": $(cat out.txt)"
    grep -q "fake CUPTI" out.txt && fail "$2: $(cat out.txt)"
    python3 check.py none || fail "trace.json: $2"
}
says "TILE_CUPTI: " TILE_CUPTI=$work/none.so
says "this CUPTI has no cuptiProfilerInitialize; that of CUDA 12.6 and later has" TILE_CUPTI=$work/drivers/libcuda.so.1
export TILE_CUPTI=$work/cupti.so
says "the driver lets only administrators read them (cuptiRangeProfilerEnable: error 35)" \
    FAKE_CUPTI=cuptiRangeProfilerEnable:35
for call in cuptiProfilerInitialize cuptiProfilerHostInitialize cuptiProfilerHostGetConfigImage \
    cuptiRangeProfilerSetConfig cuptiRangeProfilerStart cuptiRangeProfilerDecodeData cuptiProfilerHostEvaluateToGpuValues; do
    says "$call failed: OTHER (error 99)" FAKE_CUPTI=$call:99
done
# a CPU has times only
expect 0 "cpu.json has no hardware counters: they are read on NVIDIA GPUs alone, through CUPTI" \
    "$tilec" bench k.tile --ladder --repeat=1 --profile=cpu.json
# the structs are those of CUPTI's headers, where there are any
for folder in "${CUDA_PATH:-/none}" /usr/local/cuda /usr/local/cuda/extras/CUPTI; do
    [ -f "$folder/include/cupti_range_profiler.h" ] && [ -f /usr/local/cuda/include/cuda.h ] || continue
    command -v c++ >/dev/null || continue
    c++ -std=c++17 -fsyntax-only -I"$folder/include" -I/usr/local/cuda/include -I"$root" \
        "$root/tests/tools/cupti_layout.cc" || fail "structs of CUPTI"
    break
done
finish
