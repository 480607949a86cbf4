#!/bin/bash
# object_threads.sh: the threads of launches of an object: as many as the work is worth and the process may run on, the
# caller's or started for the launch, none beside a parallel region, after a fork too; what a launch costs, and what ten cost beside busy loops.
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel saxpy(in f32 X[N], inout f32 Y[N], f32 a) grid (cdiv(N, 256))
{
    let i = program_id();
    store(Y[i*256 +: 256], a * load(X[i*256 +: 256]) + load(Y[i*256 +: 256]));
}
T
expect 0 "" "$tilec" k.tile -o k.o -h k.h
# -rdynamic: the program stands for a process with an OpenMP library, whose function the launcher looks for by name
expect 0 "" "$cc" -std=gnu11 -Wall -Wextra -Werror -O1 -I. "$root/tests/tools/threads_check.c" k.o -rdynamic -o check
for test in worth region affinity pool fork; do expect 0 "$test: as expected" ./check $test; done
for test in cost busy; do expect 0 "$test: as expected" ./check $test; done
finish
