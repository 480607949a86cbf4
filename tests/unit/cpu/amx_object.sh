#!/bin/bash
# amx_object.sh: objects on a machine with AMX, by libamx_machine.so (the fourth argument) or its own: the launcher takes
# the code for AMX, the products are right in one thread and several, and the caller's tile configuration stays; if the
# operating system refuses, or TILE_CPU_LEVEL asks for less, it takes the code below. tilec obeys TILE_CPU_LEVEL=amx. Sums stay in tiles.
. "$(dirname "$0")/../../tools/lib.sh"
machine=$4
real=$(grep -qw amx_tile /proc/cpuinfo && echo 1)
grep -qw avx512_bf16 /proc/cpuinfo && grep -qw avx512_vnni /proc/cpuinfo && command -v objdump readelf >/dev/null ||
    { echo "this machine has no dot products, or no objdump"; exit 77; }

# puts other instructions in the place of cpuid and xgetbv, for which libamx_machine.so has answers (amx_machine.c)
with_answers() {
    [ -z "$real" ] || return 0
    local address offset
    read -r address offset < <(readelf -W -S "$1" | sed -n 's/.*\] \.text  *PROGBITS  *\([0-9a-f]*\) \([0-9a-f]*\) .*/\1 \2/p')
    objdump -d "$1" | awk -F '\t' '$3 ~ /^(cpuid|xgetbv)/ { gsub(/[ :]/, "", $1); print $1, $3 }' >sites
    [ -s sites ] || fail "no cpuid in $1"
    while read -r at what; do
        case $what in cpuid*) bytes='\x0f\x0b' ;; *) bytes='\x0f\xb9\xc0' ;; esac
        printf "$bytes" | dd of="$1" bs=1 conv=notrunc status=none seek=$((0x$at - 0x$address + 0x$offset))
    done <sites
}
# on_machine PRODUCTS COMMAND..: on the machine; at least that many products of tiles, and none after 0
on_machine() {
    local least=$1
    shift
    rm -f counts
    env LD_PRELOAD="$machine" ASAN_OPTIONS=verify_asan_link_order=0 AMX_MACHINE_PRODUCTS="$least" AMX_MACHINE_COUNTS="$work/counts" "$@" || return
    [ "$least" != 0 ] || ! grep -q . counts 2>/dev/null || { echo "AMX is used"; return 9; }
}

cat >p.tile <<'T'
kernel p(in T A[M, K], in T B[K, N], out ACC C[M, N], const type T, const type ACC) grid (cdiv(M, 64), cdiv(N, 64)) {
    let (i, j) = program_id();
    var acc = zeros([64, 64], ACC);
    for k in 0 .. cdiv(K, 64) {
        acc = mma(load(A[i*64 +: 64, k*64 +: 64]), load(B[k*64 +: 64, j*64 +: 64]), acc);
    }
    store(C[i*64 +: 64, j*64 +: 64], acc);
}
instantiate p(T in {bf16}, ACC in {f32});
instantiate p(T in {i8}, ACC in {i32});
T
cat >p.c <<'T'
#include "p.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { M = 150, N = 70, K = 130 };
static uint16_t a[M * K], b[K * N];
static int8_t p[M * K], q[K * N];
static float c[M * N];
static int32_t d[M * N];
static void serial(void *user, int n, void (*task)(void *, int), void *arg) { while (n-- > 0) task(arg, n); (void)user; }
int main(int argc, char **argv)
{
    static const tile_threads several[] = { { 1, NULL, NULL }, { 3, NULL, NULL }, { 4, serial, NULL } };
    _Alignas(64) unsigned char own[64] = { 1, [20] = 32, [50] = 5 }, after[64];
    int64_t m[] = { M, K }, n[] = { K, N }, o[] = { M, N };
    long wrong = 0;
    if (argc > 1) syscall(SYS_arch_prctl, 0x1023, 18);
    for (int i = 0; i < M * K; i++) { p[i] = (int8_t)(i * 7 % 3 - 1); a[i] = p[i] ? p[i] < 0 ? 0xbf80 : 0x3f80 : 0; }
    for (int i = 0; i < K * N; i++) { q[i] = (int8_t)(i * 5 % 7 ? 2 : -1); b[i] = q[i] < 0 ? 0xbf80 : 0x4000; }
    for (int t = 0; t < 3; t++) {
        memset(c, 1, sizeof c);
        memset(d, 1, sizeof d);
        if (argc > 1) __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(own) : "memory");
        int status = p_bf16_f32((tile_view){ a, m, NULL }, (tile_view){ b, n, NULL }, (tile_view){ c, o, NULL }, &several[t]);
        status |= p_i8_i32((tile_view){ p, m, NULL }, (tile_view){ q, n, NULL }, (tile_view){ d, o, NULL }, &several[t]);
        if (argc > 1) __asm__ volatile(".byte 0xc4, 0xe2, 0x79, 0x49, 0x00" : : "a"(after) : "memory");
        if (argc > 1 && memcmp(own, after, 64)) printf("the tile configuration is lost\n");
        if (argc > 1) __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");
        if (status) printf("status %d\n", status);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                int sum = 0;
                for (int k = 0; k < K; k++) sum += p[i * K + k] * q[k * N + j];
                wrong += c[i * N + j] != (float)sum || d[i * N + j] != sum;
            }
    }
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
T
expect 0 "" "$tilec" p.tile -o p.o -h p.h
expect 0 "" "$cc" -O1 p.c p.o -o p
with_answers p
expect 0 "0 wrong" on_machine 100 ./p
expect 0 "0 wrong" on_machine 100 ./p "with its own tiles"
[ "$(on_machine 100 ./p "with its own tiles")" = "0 wrong" ] || fail "a tile configuration is lost"
expect 0 "0 wrong" on_machine 100 env TILE_CPU_LEVEL=amx ./p
for level in v4dot v4 v3; do expect 0 "0 wrong" on_machine 0 env TILE_CPU_LEVEL=$level ./p; done
expect 0 "0 wrong" on_machine 0 env AMX_MACHINE_PERMISSION=refused ./p
expect 0 "0 wrong" on_machine 0 env AMX_MACHINE_PERMISSION=refused TILE_CPU_LEVEL=amx ./p

cp "$tilec" tilec
with_answers tilec
for name in p_bf16_f32 p_i8_i32; do
    types=$([ $name = p_i8_i32 ] && echo "-D T=i8 -D ACC=i32" || echo "-D T=bf16 -D ACC=f32")
    for level in amx v4dot v4; do
        expect 0 "" on_machine 0 env TILE_CPU_LEVEL=$level ./tilec p.tile $types --emit=schedule -o $level.plan
    done
    grep -q "by amx-" amx.plan || fail "TILE_CPU_LEVEL=amx does not take AMX"
    grep "by amx-" v4dot.plan v4.plan && fail "AMX at a lower level"
    expect 0 "does not use AMX: " on_machine 0 env AMX_MACHINE_PERMISSION=refused TILE_CPU_LEVEL=amx ./tilec p.tile $types --emit=schedule -o refused.plan
    grep -q "^no AMX: the operating system refuses" refused.plan || fail "the plan does not say that AMX is refused"
    grep "by amx-" refused.plan && fail "AMX although it is refused"
done
# the sums of a block stay in tiles while K runs, also those of few rows (up to four rows are not multiplied by AMX): moved at most every
# fourth product of tiles
for rows in 8 16 128 256; do
    on_machine 100 "$tilec" run "$root/examples/kernels/gemm.tile" --kernel=gemm --set=T=bf16 --set=TO=bf16 --threads=2 \
        --in=A=random:bf16[$rows,512]:1 --in=B=random:bf16[512,256]:2 --out=C=c.npy >run.txt 2>&1 || fail "$(cat run.txt)"
    [ -n "$real" ] || awk '{ n[$1] = $2 } END { exit !(n["tdpbf16ps"] >= 4 * n["tilestored"] && 2 * n["tdpbf16ps"] >= n["tileloadd"]) }' counts ||
        fail "$rows rows: $(tr '\n' ' ' <counts)"
done
finish
