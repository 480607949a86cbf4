# llvm_calls.awk: from llvm.def, macros by which the names of LLVM's functions mean those of the library that
# llvm_open has opened (llvm.h).
/^LLVM_FUNCTION\(/ {
    name = $0
    gsub(/^LLVM_FUNCTION\(|\).*/, "", name)
    print "#define LLVM" name " (llvm_functions." name ")"
}
