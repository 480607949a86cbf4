# fields.sh: what the tests here source that ask for counts. They set `costs`, the tool bench/gpu/costs.c, and `work`, a folder of their
# own.

# fields NAMES CONFIG FILE KERNEL WORDS..: these counts of one configuration, with spaces between; WORDS: types and extents.
fields() {
    echo "$2" >"$work/config"
    "$costs" --configs="$work/config" "$3" "$4" cuda:sm_90a "${@:5}" |
        awk -v names="$1" '{ n = split(names, name, " ")
            for (i = 1; i < NF; i++) for (k = 1; k <= n; k++) if ($i == "\"" name[k] "\":") x[k] = $(i + 1) + 0 }
            END { for (k = 1; k <= n; k++) printf("%s%.9g", k > 1 ? " " : "", x[k]) }'
}
