# Copies a CTestTestfile.cmake, every test renamed to PREFIX.name and run in FOLDER, so that several builds can be tested by one run of ctest.
# With only=LABEL tests without that label are left out, with only=-LABEL those that have it. CMake writes a test as add_test(NAME ..) and, on the next lines,
# set_tests_properties(NAME PROPERTIES ..); an argument with line breaks makes add_test several lines long.
BEGIN { label = only; sub(/^-/, "", label) }
function flush() {
    place()
    if (pending != "" && (only == "" || (labelled != 0) != (only ~ /^-/))) printf "%s", pending
    pending = ""; labelled = 0
}
function place() {
    if (placed != "") pending = pending "set_tests_properties(" placed " PROPERTIES WORKING_DIRECTORY \"" folder "\")\n"
    placed = ""
}
function renamed(line) {
    sub(/^add_test\(\[=\[/, "&" prefix ".", line) || sub(/^set_tests_properties\(\[=\[/, "&" prefix ".", line) ||
    sub(/^add_test\("?/, "&" prefix ".", line) || sub(/^set_tests_properties\("?/, "&" prefix ".", line)
    return line
}
function name_of(line) { sub(/^add_test\(/, "", line); sub(/ .*/, "", line); return line }
/^add_test\(/ {
    flush()
    pending = renamed($0) "\n"
    placed = name_of(renamed($0))
    next
}
/^set_tests_properties\(/ {
    place()
    if (match($0, /LABELS "[^"]*"/) && (";" substr($0, RSTART + 8, RLENGTH - 9) ";") ~ (";" label ";")) labelled = 1
    pending = pending renamed($0) "\n"
    next
}
# Between add_test and its properties: the rest of an argument with line breaks.
{ if (pending != "" && placed == "" && !/^ /) flush(); if (pending != "") pending = pending $0 "\n"; else print }
END { flush() }
