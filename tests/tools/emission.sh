#!/bin/bash
# emission.sh: the text for GPUs that the command writes is read by a compiler unless the user says otherwise. A library that stands in for libclang finds
# fault with every text that has the word it is told, so that a broken emission can be had at will; where the real one is found, it reads text too.
. "$(dirname "$0")/lib.sh"
cat >fake.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { const void *data; unsigned flags; } String;
typedef struct { const void *data[2]; unsigned offset; } Location;
typedef struct { const char *name, *text; unsigned long size; } File;
static unsigned faults;
void *clang_createIndex(int a, int b) { return "index"; }
void clang_disposeIndex(void *i) { }
int clang_parseTranslationUnit2(void *i, const char *name, const char *const *args, int n, File *f, unsigned n_files, unsigned options, void **unit)
{
    FILE *log = fopen("read.log", "a");
    fprintf(log, "%s\n", name);
    fclose(log);
    faults = getenv("FAULT") && strstr(f->text, getenv("FAULT")) != NULL;
    *unit = "unit";
    return 0;
}
void clang_disposeTranslationUnit(void *u) { }
unsigned clang_getNumDiagnostics(void *u) { return faults; }
void *clang_getDiagnostic(void *u, unsigned i) { return "fault"; }
void clang_disposeDiagnostic(void *d) { }
int clang_getDiagnosticSeverity(void *d) { return 3; }
String clang_getDiagnosticSpelling(void *d) { return (String){ "use of undeclared identifier", 0 }; }
Location clang_getDiagnosticLocation(void *d) { return (Location){ { 0 }, 0 }; }
void clang_getPresumedLocation(Location l, String *file, unsigned *line, unsigned *column) { *file = (String){ "k.tile", 0 }; *line = 3; *column = 1; }
void clang_getSpellingLocation(Location l, void **file, unsigned *line, unsigned *column, unsigned *offset) { *line = 1; }
const char *clang_getCString(String s) { return s.data; }
void clang_disposeString(String s) { }
String clang_getClangVersion(void) { return (String){ getenv("VERSION") ? getenv("VERSION") : "Some clang version 22.1.0", 0 }; }
C
"$cc" -shared -fPIC fake.c -o fake.so || fail "fake.so"
cat >k.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 64)) {
    let i = program_id();
    store(Y[i*64 +: 64], load(X[i*64 +: 64]) + 1.0);
}
kernel l(in f32 X[N], out f32 Y[N], const int B = 64) grid (cdiv(N, B)) {
    let i = program_id();
    store(Y[i*B +: B], load(X[i*B +: B]) + 1.0);
}
T
export TILE_LIBCLANG=$work/fake.so FAULT=threadIdx
k=("$tilec" k.tile --kernel=k --target=cuda:sm_80)
reads() { local n; n=$(cat read.log 2>/dev/null | wc -l); rm -f read.log; [ "$n" = "$1" ] || fail "$2: the text was read $n times, not $1"; }

# the default: broken text is an error with its place, and nothing is written
for how in "-o k.cu" "--emit=cuda" "--emit=cuda -o k.cu"; do
    # shellcheck disable=SC2086
    expect 1 "k.tile:3:5: error: the code emitted for cuda:sm_80 is wrong: use of undeclared identifier" "${k[@]}" $how
    reads 1 "$how"; absent k.cu
done
expect 1 "the code emitted for hip:gfx942 is wrong" env FAULT=workitem "$tilec" k.tile --kernel=k --target=hip:gfx942 -o k.hip; reads 1 hip; absent k.hip
expect 1 "is wrong" "$tilec" k.tile --target=cuda:sm_80 -D B=64,128 -o k.cu; reads 1 "several variants, together"; absent k.cu
expect 1 "is wrong" "$tilec" k.tile --kernel=k --target=cuda:sm_80 --bundle --bundle-source=always -o b.c -h b.h; absent b.c
rm -f read.log

# switched off; and where other text, or none, is what the user gets
expect 0 "" "${k[@]}" --no-check-emission -o k.cu; reads 0 "--no-check-emission"
for stage in ir kernel-ir schedule; do "${k[@]}" --emit=$stage >/dev/null || fail "--emit=$stage"; reads 0 "--emit=$stage"; done
expect 1 "is wrong" "${k[@]}" --emit=schedule --check-emission; reads 1 "--emit=schedule --check-emission"
expect 0 "" "$tilec" k.tile --kernel=k -o k.o; reads 0 "an object for the CPU"
expect 2 "contradict each other" "${k[@]}" --check-emission --no-check-emission -o k.cu

# good text; no libclang: nothing is said, unless it was asked for
expect 0 "" env FAULT=nowhere "${k[@]}" -o k.cu; reads 1 "good text"
expect 0 "" env TILE_LIBCLANG=/none.so "${k[@]}" -o k.cu
expect 2 "--check-emission: no libclang" env TILE_LIBCLANG=/none.so "${k[@]}" --check-emission -o k.cu

# a libclang that was found, not named, must be new enough for what emissions use
mkdir old; cp fake.so old/libclang-22.so.22
old=(env -u TILE_LIBCLANG LD_LIBRARY_PATH="$work/old" VERSION="clang version 14.0.6")
expect 0 "" "${old[@]}" "${k[@]}" -o k.cu; reads 0 "an old libclang"
expect 1 "is wrong" "${old[@]}" "${k[@]}" --check-emission -o k.cu; reads 1 "an old libclang, asked for"

# the real one, where there is one: every instruction set that it is asked about is known to it
unset TILE_LIBCLANG FAULT
if "${k[@]}" --check-emission -o k.cu 2>/dev/null; then
    for target in cuda:sm_80 cuda:sm_90a cuda:sm_100a cuda:sm_120 hip:gfx942 hip:gfx950 hip:gfx1100; do
        expect 0 "" "$tilec" k.tile --kernel=k --target=$target -o k.out
    done
else echo "no libclang here"; fi
finish
