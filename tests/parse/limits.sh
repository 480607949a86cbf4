#!/bin/sh
# limits.sh TOOL: limits whose inputs are too large or too odd to keep as files. Each must give its message and exit code 1.
tool=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
status=0
expect() {
    # shellcheck disable=SC2086
    "$tool" ${3:-check} "$1" ${4:-} > "$dir/out" 2>&1
    code=$?
    if [ $code != 1 ] || ! grep -q -F "$2" "$dir/out"; then
        echo "exit $code, expected an error that says: $2"
        head -c 2000 "$dir/out"
        status=1
    fi
}
one() { [ "$(grep -c error: "$dir/out")" = 1 ] || { echo "more than one error:"; head -c 2000 "$dir/out"; status=1; }; }
printf 'kernel a(in f32 X[N]) grid (N) { print("a\0b"); }\n' > "$dir/zero.tile"
expect "$dir/zero.tile" "zero.tile:1:42: error: a zero byte: a program is ASCII text"; one
printf '\377\376k\0e\0r\0n\0e\0l\0 \0a\0' > "$dir/utf16.tile"
expect "$dir/utf16.tile" "utf16.tile:1:4: error: a zero byte"; one
head -c 100000 "$tool" > "$dir/binary.tile"
expect "$dir/binary.tile" "error: a zero byte"; one
printf 'kernel a(out f32 Y[N]) grid (N) { /* \033[31m */ store(Y[0], bad); }\n' > "$dir/escape.tile"
expect "$dir/escape.tile" "{ /* ?[31m */ store"
# What editors write: a byte-order mark, carriage returns; positions count from after the mark.
printf '\357\273\277kernel a(out f32 Y[N]) grid (N) {\r\n    store(Y[0], 1.0);\r\n}\r\n' > "$dir/mark.tile"
"$tool" check "$dir/mark.tile" || { echo "a byte-order mark and CRLF are refused"; status=1; }
printf '\357\273\277kernal\r\n' > "$dir/mark_bad.tile"
expect "$dir/mark_bad.tile" "mark_bad.tile:1:1: error: unexpected name"
{ printf 'kernel '; awk 'BEGIN { for (i = 0; i < 256; i++) printf "k" }'; echo '(out f32 Y[N]) grid (N) { }'; } > "$dir/name.tile"
expect "$dir/name.tile" "a name has at most 255 characters"; one
awk 'BEGIN { for (i = 0; i < 70000; i++) print "// ------------------------------------------------------------------------" }' > "$dir/large.tile"
expect "$dir/large.tile" "source is larger than 4 MiB"
for i in $(seq 0 20); do echo "import \"deep$((i + 1)).tile\";" > "$dir/deep$i.tile"; done
expect "$dir/deep0.tile" "imports are nested more than 16 deep"
for i in $(seq 1 70); do echo "import \"wide$i.tile\";"; : > "$dir/wide$i.tile"; done > "$dir/wide.tile"
expect "$dir/wide.tile" "a program has more than 64 files"
{ printf 'kernel a('; for i in $(seq 1 280); do printf 'i32 p%d, ' "$i"; done; echo 'out f32 Y[N]) grid (N) { }'; } > "$dir/params.tile"
expect "$dir/params.tile" "a kernel has at most 256 parameters"
{ printf 'fn f('; for i in $(seq 1 80); do printf 'p%d, ' "$i"; done; echo 'q) { return q; }'; } > "$dir/fn.tile"
expect "$dir/fn.tile" "a fn has at most 64 parameters"
{ echo 'kernel a(out f32 Y[N]) grid (N) { store(Y[0], '; awk 'BEGIN { for (i = 0; i < 6000; i++) printf "true ? 1.0 : " }'; echo '1.0); }'; } > "$dir/ternary.tile"
expect "$dir/ternary.tile" "nesting is too deep"
{ echo 'kernel a(out f32 Y[N]) grid (N) {'; awk 'BEGIN { for (i = 0; i < 3000; i++) print "if true { } else " }'; echo '{ } }'; } > "$dir/else.tile"
expect "$dir/else.tile" "nesting is too deep"
awk 'BEGIN { print "kernel a(out f32 Y[N]) grid (N) {"; for (i = 0; i < 200000; i++) printf "{" }' > "$dir/braces.tile"
expect "$dir/braces.tile" "nesting is too deep"
# Thirty functions, each a long chain of operators around the next: the stack must hold.
{ echo 'fn f0(x) { return x; }'
  awk 'BEGIN { for (i = 1; i <= 30; i++) { printf "fn f" i "_(x) { return "; for (k = 0; k < 380; k++) printf "-"; print (i > 1 ? "f" (i - 1) "_" : "f0") "(x); }" } }'
  echo 'kernel a(out f32 Y[N]) grid (N) { store(Y[0], f30_(load(Y[0]))); }'; } > "$dir/deep.tile"
expect "$dir/deep.tile" "too large, or the functions it calls expand too far" all
awk 'BEGIN { print "fn f0(x) { return x; }"; for (i = 1; i < 5000; i++) print "fn f" i "_(x) { return f" (i - 1) (i > 1 ? "_" : "") "(x); }"
             print "kernel a(out f32 Y[N]) grid (N) { store(Y[0], f4999_(load(Y[0]))); }" }' > "$dir/chain.tile"
expect "$dir/chain.tile" "calls of fn functions are nested more than 32 deep" lower a
awk 'BEGIN { print "kernel a(out f32 Y[N]) grid (N) {"; for (i = 0; i < 20000; i++) print "var v" i " = 1.0;"
             print "for i in 0 .. N {"; for (i = 0; i < 20000; i++) print "v" i " = 2.0;"; print "} }" }' > "$dir/vars.tile"
expect "$dir/vars.tile" "more than 62 variables change in this statement" lower a
exit $status
