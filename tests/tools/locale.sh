#!/bin/bash
# locale.sh: in a process whose locale writes 1,5 for 1.5, every text is read and written as in the C locale. The locale
# is built here; a preloaded library sets it, as a host program's setlocale(LC_ALL, "") would.
. "$(dirname "$0")/lib.sh"
library=$4 tool=$5

# --- no object calls what depends on the locale: only ir/support/format.c and ir/support/number.c turn numbers into text and back
calls='(v?[sdf]?n?printf|v?asprintf|v?f?scanf|v?sscanf|strto(d|f|ld|f64|f128)|atof|[efgq]cvt(_r)?|strfrom[dfl]|setlocale|localeconv|nl_langinfo|str(case)?coll|strncasecmp|strcasecmp|to(lower|upper)|is(alnum|alpha|digit|space|x?digit|upper|lower|print|punct|cntrl)|__ctype_(b|tolower|toupper)_loc)'
foreign() { nm -A --undefined-only "$@" 2>/dev/null | grep -E " U (__)?(isoc[0-9]+_)?(__)?$calls(_chk)?(@.*)?\$"; }
if command -v nm >/dev/null; then
    nm -A --undefined-only "$library" | grep -q ' U format_text' || fail "nm shows nothing of $library"
    echo 'int snprintf(char *, unsigned long, const char *, ...); double strtod(const char *, char **); int f(char *b, char **e) { return snprintf(b, 9, "%g", strtod(b, e)); }' >bad.c
    "$cc" -fno-builtin -c bad.c -o bad.o && [ "$(foreign bad.o | wc -l)" = 2 ] || fail "the check does not find calls"
    found=$(foreign "$library" "$tool") && fail "use ir/support/format.h and ir/support/number.h instead of:"$'\n'"$found"
fi

# --- the locale
printf 'LC_NUMERIC\ndecimal_point "<U002C>"\nthousands_sep "<U002E>"\ngrouping 3;3\nEND LC_NUMERIC\n' >comma.src
mkdir locale
command -v localedef >/dev/null || { echo "SKIP: no localedef here"; exit $((failures ? 1 : 77)); }
localedef -c -i comma.src ./locale/comma >/dev/null 2>log       # warns of the categories that are missing
[ -e locale/comma/LC_NUMERIC ] || { echo "SKIP: localedef builds no locale: $(tail -1 log)"; exit $((failures ? 1 : 77)); }
cat >comma.c <<'C'
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void comma(void)
{
    char text[8];
    if (setlocale(LC_NUMERIC, "comma")) snprintf(text, sizeof text, "%g", 1.5);
    if (!setlocale(LC_NUMERIC, NULL) || text[1] != ',') { fputs("no comma locale\n", stderr); _Exit(99); }
}
C
"$cc" -shared -fPIC comma.c -o comma.so || fail "comma.so"
comma() { LOCPATH=$work/locale LD_PRELOAD=$work/comma.so "$@"; }
# both COMMAND...: the same output, error and status in both locales
both() {
    "$@" >plain.out 2>plain.err; local plain=$?
    comma "$@" >comma.out 2>comma.err; local code=$?
    [ $plain = $code ] || fail "status $code, not $plain: $*"$'\n'"$(cat comma.err)"
    cmp -s plain.out comma.out && cmp -s plain.err comma.err || fail "$*:"$'\n'"$(diff plain.out comma.out | head -5; diff plain.err comma.err | head -5)"
}
printf '#include <stdio.h>\nint main(void) { printf("%%.1f", 1.5); return 0; }\n' >try.c
"$cc" try.c -o try && [ "$(comma ./try)" = 1,5 ] || fail "the locale has no comma"

# --- what is emitted, at every stage and for every target
cat >k.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N], f32 s, const f32 C = 1.25) grid (cdiv(N, 64))
{
    let i = program_id();
    let x = load(X[i*64 +: 64], pad = -2.5);
    store(Y[i*64 +: 64], exp(x * 0.1 + C) + erf(x) * s + 1e-30 + 1.0e25);
}
kernel d(in f64 X[N], out f64 Y[N]) grid (cdiv(N, 64))
{
    let i = program_id();
    store(Y[i*64 +: 64], sin(load(X[i*64 +: 64])) * 0.3);
}
T
for target in cuda:sm_80 cuda:sm_90a hip:gfx942 hip:gfx1100 cpu; do
    for kernel in k d; do
        for stage in ir kernel-ir; do both "$tilec" k.tile --kernel=$kernel --target=$target --emit=$stage; done
    done
done
for target in cuda:sm_80:cuda cuda:sm_90a:cuda hip:gfx942:hip hip:gfx1100:hip; do
    for kernel in k d; do both "$tilec" k.tile --kernel=$kernel --target=${target%:*} --emit=${target##*:}; done
done
both "$tilec" k.tile --kernel=k --emit=llvm
both "$tilec" k.tile --kernel=k -D C=0.75 -o k.o -h k.h
both cat k.h
both "$tilec" explain k.tile --kernel=k --target=cuda:sm_90a
both "$tilec" sim "$root/examples/kernels/gemm.tile" -D M=1024 -D N=1024 -D K=256 --target=cuda:sm_90a
grep -q '1\.25' plain.out || "$tilec" k.tile --kernel=k --target=cuda:sm_80 --emit=cuda | grep -q '1\.25' || fail "no constant in the text"

# --- what is read: scalars, ranges, tables; and what kernels print
cat >p.tile <<'T'
kernel p(in f32 X[N], out f32 Y[N], f32 s) grid (1) { let x = load(X[0 +: 4]) * 0 + s; print("s is", s, x); store(Y[0 +: 4], x); }
T
for target in interp cpu; do
    both "$tilec" run p.tile --target=$target -g --in X=random:f32[4]:1:-0.5:1.5 --set s=0.5 --out Y=y.npy
    cat plain.out plain.err | grep -qF '0.5, 0.5' || fail "print writes no points: $(cat plain.out plain.err)"
done
both "$tilec" run p.tile --in X=zeros:f32[4] --set s=0,5 --out Y=y.npy
[ "$(cat plain.err)" != "" ] || fail "0,5 is taken for a number"
cat >main.c <<'C'
#include "p.h"
#include <locale.h>
#include <stdio.h>
int main(void)
{
    float x[4] = { 1, 2, 3, 4 }, y[4];
    int64_t n = 4;
    tile_view v = { x, &n, NULL }, w = { y, &n, NULL };
    int status = p(v, w, 0.5f, NULL);
    printf("%d %s\n", status, localeconv()->decimal_point);      /* the caller's locale is still set */
    return status;
}
C
"$tilec" p.tile -g -o p.o -h p.h && "$cc" main.c p.o -o ahead || fail "an object that prints"
[ "$(comma ./ahead)" = $'s is 0.5 [0.5, 0.5, 0.5, 0.5]\n0 ,' ] || fail "print in an object: $(comma ./ahead)"

# --- a tuning table: written in one locale and read in the other
cat >t.tile <<'T'
kernel t(in f32 X[N], out f32 Y[N], const f32 C = 0.5) grid (cdiv(N, 16)) { let i = program_id(); store(Y[i*16 +: 16], load(X[i*16 +: 16]) * C); }
tune t { C in {0.25, 1.5}; key (N); }
T
comma "$tilec" tune t.tile --in X=ones:f32[64] --budget=0.5 --unchecked -o t.tune >tune.out 2>&1 || fail "tune: $(cat tune.out)"
grep -qE '"C": (0\.5|0\.25|1\.5)' t.tune && grep -qE '"ms": [0-9]' t.tune || fail "the table: $(cat t.tune)"
grep -E '[0-9],[0-9]' t.tune tune.out && fail "commas in numbers"
both "$tilec" run t.tile --table=t.tune --in X=ones:f32[64] --out Y=y.npy
comma "$tilec" run t.tile --table=t.tune --in X=ones:f32[64] --out Y=comma.npy; same y.npy comma.npy
finish
