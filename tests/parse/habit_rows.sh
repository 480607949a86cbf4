#!/bin/bash
# habit_rows.sh TOOL ROOT: every row of frontend/parse/habits.def is one error with the note of that row.
tool=$1 table=$2/frontend/parse/habits.def
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=0 wrong=0
while IFS=$'\t' read -r place word note; do
    case $place in
        CALL) text="let y = $word(x);" ;;
        TYPE) text="let y = $word(x);" note="write \`$note(x)\`" ;;
        ARGUMENT) text="let y = load(X[0 +: 4], $word = 0);" ;;
        NAME) text="let y = $word;" ;;
        METHOD) text="let y = x.$word;" ;;
        WORD) text="let y = x $word x;" ;;
        *) echo "unknown place $place"; exit 1 ;;
    esac
    printf 'kernel k(in f32 X[N]) grid (N)\n{\n    let x = load(X[0 +: 4]);\n    %s\n}\n' "$text" >"$work/row.tile"
    out=$("$tool" check "$work/row.tile")$'\n'
    others=${out/: error: /}
    rows=$((rows + 1))
    if [[ $out != row.tile:4:*': error: '* || $others == *': error: '* || $out != *$'\n'"note: $note"$'\n'* ]]; then
        printf '%s %s:\n%s' "$place" "$word" "$out"
        wrong=$((wrong + 1))
    fi
done < <(sed -nE 's/^HABIT\(([A-Z]+), "([^"]*)", "(.*)"\)$/\1\t\2\t\3/p' "$table" | sed 's/\\"/"/g')
echo "$rows rows, $wrong wrong"
[ $rows -ge 100 ] && [ $rows = "$(grep -c '^HABIT(' "$table")" ] && [ $wrong = 0 ]
