#!/bin/bash
# texts.sh: what launchers of objects and functions of tvm-ffi's ABI say of wrong arguments, compared with libtile (argument 4: its
# shared library) over the same arguments.
. "$(dirname "$0")/lib.sh"
here=$root/tests/tools libtile=$4
cp "$here/texts.tile" .
expect 0 "" "$tilec" texts.tile --check -o texts.o -h texts.h
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Werror -O1 -I. -I"$root/runtime/include" "$here/texts_check.c" texts.o "$libtile" -Wl,-rpath,"$(dirname "$libtile")" -lpthread -o check
expect 0 " texts as in libtile" ./check texts.tile
finish
