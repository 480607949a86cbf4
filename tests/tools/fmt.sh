#!/bin/bash
# fmt.sh: `tilec fmt`: fmt/*.tile come out as their .expected; the files and streams of the command.
. "$(dirname "$0")/lib.sh"
for file in "$root"/tests/tools/fmt/*.tile; do
    name=$(basename "$file" .tile)
    "$tilec" fmt - <"$file" >"$name.out" || fail "$name is refused"
    diff -u "${file%.tile}.expected" "$name.out" || fail "$name"
    cp "$name.out" again.tile
    expect 0 "" "$tilec" fmt --check again.tile
    # Line ends of other systems, and a last line without its end, give the same text.
    sed 's/$/\r/' "$file" | head -c -2 | "$tilec" fmt - | cmp -s - "$name.out" || fail "$name with carriage returns"
done

# Files: in place, with their permissions, through a link; a formatted one is not written.
printf 'fn f(a){return a;}' >f.tile
printf 'fn g(a) { return a; }\n' >g.tile
chmod 640 f.tile
ln -s f.tile link.tile
touch -d 2001-01-01 g.tile
expect 1 "f.tile" "$tilec" fmt --check f.tile g.tile
[ "$("$tilec" fmt --check g.tile f.tile link.tile)" = $'f.tile\nlink.tile' ] || fail "the names of --check"
[ "$(cat f.tile)" = 'fn f(a){return a;}' ] || fail "--check writes"
expect 0 "" "$tilec" fmt link.tile g.tile
[ "$(cat f.tile)" = 'fn f(a) { return a; }' ] || fail "f.tile: $(cat f.tile)"
[ "$(stat -c %a f.tile)" = 640 ] && [ -L link.tile ] || fail "permissions, or the link"
[ g.tile -ot f.tile ] && [ "$(stat -c %Y g.tile)" = "$(date -d 2001-01-01 +%s)" ] || fail "a formatted file is written"

# A byte order mark is kept, and columns of messages do not count it.
printf '\xef\xbb\xbffn f(a){return a;}' >mark.tile
expect 0 "" "$tilec" fmt mark.tile
[ "$(cat mark.tile)" = $'\xef\xbb\xbffn f(a) { return a; }' ] || fail "mark.tile: $(cat mark.tile)"
expect 0 "" "$tilec" fmt --check mark.tile
printf '\xef\xbb\xbffn f(a){return a' >marked.tile
expect 1 "marked.tile:1:16: error: unexpected end of file" "$tilec" fmt marked.tile

# What is refused stays as it is; the other files are formatted.
printf 'fn f(a){return a' >bad.tile
printf 'fn f(a){return `a;}' >lex.tile
printf 'fn f(a)\0{return a;}' >zero.tile
printf 'import "gone.tile";fn f(a){return b;}' >import.tile
for file in bad lex zero; do cp $file.tile $file.old; done
expect 1 "bad.tile:1:16: error: unexpected end of file" "$tilec" fmt bad.tile import.tile
expect 1 "lex.tile:1:16: error: unexpected character" "$tilec" fmt lex.tile
expect 1 "zero.tile:1:8: error: a zero byte" "$tilec" fmt zero.tile
for file in bad lex zero; do same $file.tile $file.old; done
[ "$(cat import.tile)" = $'import "gone.tile";\nfn f(a) { return b; }' ] || fail "import.tile: $(cat import.tile)"
expect 1 "cannot open gone.tile" "$tilec" fmt gone.tile
expect 2 "no .tile file given" "$tilec" fmt
expect 2 "--width wants a number from 40" "$tilec" fmt --width=3 g.tile
printf 'fn f(%s) { return a%s; }' "$(seq -s, -f 'a%g' 30)" "$(printf '+1%.0s' {1..40})" | "$tilec" fmt --width=50 - >narrow
awk 'length > 50 { exit 1 }' narrow || fail "lines over 50 columns: $(cat narrow)"
[ -z "$(printf '' | "$tilec" fmt -)" ] || fail "an empty file"
{ printf 'fn f() { return '; printf '(%.0s' {1..198}; printf 1; printf ')%.0s' {1..198}; printf '; }\n'; } >deep.tile
expect 0 "" "$tilec" fmt deep.tile

# Ten thousand lines. The bound allows for a busy machine and a build for debugging.
for i in $(seq 66); do
    sed -E "s/(kernel|tune|instantiate) +([a-z_0-9]+)/\1 \2_$i/" "$root"/examples/kernels/conv2d.tile
done >long.tile
lines=$(wc -l <long.tile)
((lines >= 10000)) || fail "a program of $lines lines"
TIMEFORMAT=%U; took=$( { time "$tilec" fmt - <long.tile >long.out; } 2>&1)
echo "$lines lines: $took s of processor time"
awk -v took="$took" 'BEGIN { exit !(took < 2) }' || fail "$lines lines take $took s"
finish
