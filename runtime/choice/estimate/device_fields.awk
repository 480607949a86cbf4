# device_fields.awk: prints docs/device-model.md from device_model.def and the model of the H100.
#   awk -f device_fields.awk models/h100.model device_model.def >docs/device-model.md
# A comment of device_model.def that stands before rows is the text above their table.
BEGIN {
    print "# The fields of a device model\n"
    print "The search without a table estimates the time of a launch from what a kernel does and from the figures of a"
    print "card. This page lists these figures. [tuning.md](tuning.md#estimate-estimatec) has the formulas. A model is a"
    print "file of `runtime/choice/models` that gives the values for one card, and"
    print "[extending.md](extending.md#a-device-model) has the steps for adding one.\n"
    print "A *rate* is per multiprocessor and nanosecond. The column \"found\" says where the H100's value comes from:\n"
    print "- *together*: a fit of all fields that say so, on the times of `bench/gpu` (`bench/gpu/fit.c`)"
    print "- *data sheet*: the vendor's document"
    print "- *chosen*: set by hand; a threshold of the choice, or of what it says"
    print "- other words begin the paragraph of [bench/notes/choice.md](../bench/notes/choice.md#the-model-of-the-choice)"
    print "  with the problems and times on which the value was fitted\n"
    print "The test `structure.tables` holds this page against `runtime/choice/estimate/device_model.def`, of which"
    print "`UPDATE=1 bash tests/structure/tables.sh .` makes it again."
}
FNR == NR { if (NF == 2 && $2 ~ /^-?[0-9.]+$/) value[$1] = $2; next }
/^\/\* (FIELD|CARD)\(/ { head = 1 }                                         # of the macros, not of rows
/^\/\*/ { text = ""; open = 1 }
open {
    line = $0
    closed = sub(/ *\*\/$/, "", line)
    sub(/^(\/\*| \*) */, "", line)
    text = text (text == "" ? "" : " ") line
    if (closed) {
        if (head) text = text ~ /^CARD/ ? "Figures that each model gives itself, even where it is `like` another one. What a driver says of a card takes precedence." : ""
        open = head = 0
        if (text != "") pending = text
    }
    next
}
/^(FIELD|CARD)\(/ {
    if (pending != "") {
        print "\n" fold(pending) "\n\n| field | H100 | unit | found | meaning |\n|---|---|---|---|---|"
        pending = ""
    }
    split($0, part, "\"")                # FIELD(name, "fitted", "unit", "meaning")
    name = part[1]
    sub(/^[A-Z]+\(/, "", name); sub(/, *$/, "", name)
    print "| `" name "` | " value[name] " | " part[4] " | " part[2] " | " part[6] " |"
}
function fold(t,    out, line, n, i, word) {        # at most 110 columns
    n = split(t, word, " ")
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + 1 + length(word[i]) > 108) { out = out line "\n"; line = "" }
        line = line (line == "" ? "" : " ") word[i]
    }
    return out line
}
