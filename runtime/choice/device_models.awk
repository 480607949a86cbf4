# device_models.awk: FIELDS MODEL...: C initializers of the device models (device_model.h), one a file of models/.
# FIELDS is device_model.def. A model has lines `NAME VALUE`; `like NAME` takes the values of a model that was read before.
# Fails when a field is unknown, given twice, or missing.
function fail(text) { print FILENAME ": " text > "/dev/stderr"; failed = 1; exit 1 }
function finish(    i, name) {
    if (model == "") return
    for (i = 1; i <= n_fields; i++) if (!((model, fields[i]) in value)) fail("no value for " fields[i])
    if (targets == "") fail("no targets")
    printf "{ .name = \"%s\", .targets = \"%s\", .measured = %s", model, targets, measured == "yes" ? "true" : "false"
    for (i = 1; i <= n_fields; i++) printf ", .%s = %s", fields[i], value[model, fields[i]]
    print " },"
}
NR == FNR {
    if (match($0, /^FIELD\([a-z0-9_]+/)) { fields[++n_fields] = substr($0, 7, RLENGTH - 6); known[fields[n_fields]] = 1 }
    next
}
FNR == 1 { finish(); model = FILENAME; sub(/.*\//, "", model); sub(/\.model$/, "", model); targets = measured = ""; delete given }
/^#/ || NF == 0 { next }
$1 == "targets" { targets = $2; for (i = 3; i <= NF; i++) targets = targets " " $i; next }
$1 == "measured" { measured = $2; next }
$1 == "like" {
    for (i = 1; i <= n_fields; i++) {
        if (!(($2, fields[i]) in value)) fail("like " $2 ": no such model before this one")
        value[model, fields[i]] = value[$2, fields[i]]
    }
    next
}
!($1 in known) { fail("unknown field " $1) }
$1 in given { fail("field " $1 " is given twice") }
NF != 2 || $2 !~ /^-?[0-9]+(\.[0-9]+)?$/ { fail("expected `NAME VALUE` in line " FNR) }
{ given[$1] = 1; value[model, $1] = $2 }
END { if (!failed) finish() }
