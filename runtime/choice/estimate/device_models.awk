# device_models.awk: FIELDS MODEL...: C initializers of the device models (device_model.h), one a file of models/.
# FIELDS is device_model.def. A model has lines `NAME VALUE`; `like NAME` takes the values of a model that was read before.
# `card NAME` is the name, or its beginning, by which the driver knows the card. A row CARD of the fields is given by each model itself.
# Fails when a field is unknown, given twice, or missing.
function fail(text) { print FILENAME ": " text > "/dev/stderr"; failed = 1; exit 1 }
function finish(    i, name) {
    if (model == "") return
    for (i = 1; i <= n_fields; i++) if (!((model, fields[i]) in value)) fail("no value for " fields[i])
    if (targets == "") fail("no targets")
    if (card == "") fail("no card")
    printf "{ .name = \"%s\", .card = \"%s\", .targets = \"%s\", .measured = %s", model, card, targets, measured == "yes" ? "true" : "false"
    for (i = 1; i <= n_fields; i++) printf ", .%s = %s", fields[i], value[model, fields[i]]
    print " },"
}
NR == FNR {
    if (match($0, /^(FIELD|CARD)\([a-z0-9_]+/)) {
        name = substr($0, 1, RLENGTH); own_row = sub(/^CARD\(/, "", name); sub(/^FIELD\(/, "", name)
        fields[++n_fields] = name; known[name] = 1; own[name] = own_row
    }
    next
}
FNR == 1 { finish(); model = FILENAME; sub(/.*\//, "", model); sub(/\.model$/, "", model); card = targets = measured = ""; delete given }
/^#/ || NF == 0 { next }
$1 == "targets" { targets = $2; for (i = 3; i <= NF; i++) targets = targets " " $i; next }
$1 == "card" { card = $2; for (i = 3; i <= NF; i++) card = card " " $i; next }
$1 == "measured" { measured = $2; next }
$1 == "like" {
    for (i = 1; i <= n_fields; i++) {
        if (!(($2, fields[i]) in value)) fail("like " $2 ": no such model before this one")
        if (!own[fields[i]]) value[model, fields[i]] = value[$2, fields[i]]
    }
    next
}
!($1 in known) { fail("unknown field " $1) }
$1 in given { fail("field " $1 " is given twice") }
NF != 2 || $2 !~ /^-?[0-9]+(\.[0-9]+)?$/ { fail("expected `NAME VALUE` in line " FNR) }
{ given[$1] = 1; value[model, $1] = $2 }
END { if (!failed) finish() }
