#!/bin/bash
# packages.sh CMAKE BUILD SOURCE CC: the target `dist` makes three Debian packages and a source tarball. They are
# installed into an empty root with a package database of its own; what a user does with them works from there.
cmake=$1 build=$2 source=$3 cc=$4
set -u
command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || { echo "no dpkg here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
"$cmake" --build "$build" --target dist >"$work/log" 2>&1 || fail "dist: $(tail -20 "$work/log")"
version=$(sed -nE 's/^project\(tile VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")
root=$work/root
mkdir -p "$root/var/lib/dpkg/"{info,updates} && touch "$root/var/lib/dpkg/"{status,available}
for name in tilec libtile0 libtile-dev; do
    deb=$(echo "$build"/dist/${name}_"$version"_*.deb)
    [ -f "$deb" ] || fail "no package $name $version among: $(ls "$build/dist")"
    dpkg --root="$root" --force-not-root --force-bad-path --force-depends --log=/dev/null --unpack "$deb" >"$work/log" 2>&1 ||
        fail "dpkg --unpack $deb: $(cat "$work/log")"
done
# Every library that a file of a package needs is in that package or in one that it declares to depend on.
needed=0
for name in tilec libtile0; do
    depends=$(dpkg-deb -f "$build"/dist/${name}_"$version"_*.deb Depends | tr ',|' '\n\n' | sed 's/ *(.*//; s/^ *//')
    while read -r file; do
        for library in $(readelf -d "$root$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            needed=$((needed + 1))
            grep -q "/$library\$" "$root/var/lib/dpkg/info/$name.list" && continue
            owners=$(dpkg -S "*/$library" 2>/dev/null | sed 's/:.*//' | tr -d ' ' | tr ',' '\n' | sort -u)
            [ -n "$owners" ] || fail "$name: no package here has $library, which $file needs"
            grep -qxF "$owners" <<<"$depends" || fail "$name: $file needs $library of $owners, and depends on: $depends"
        done
    done < <(sed -n 's/^\(.*\(\/bin\/\|\.so\).*\)$/\1/p' "$root/var/lib/dpkg/info/$name.list")
done
[ "$needed" -ge 3 ] || fail "only $needed needed libraries were found"
# LLVM's library is opened at run time, from a package that both declare.
for name in tilec libtile0; do
    dpkg-deb -f "$build"/dist/${name}_"$version"_*.deb Depends | grep -q llvm || fail "$name does not depend on LLVM"
done
dpkg-deb -f "$build"/dist/libtile-dev_*.deb Depends | grep -q "libtile0 (= $version), tilec (= $version)" || fail "libtile-dev"

# The command, a program through pkg-config, and a man page.
cd "$work" || exit 1
export TILE_CACHE_DIR=$work/cache LD_LIBRARY_PATH=$root/usr/lib
"$root/usr/bin/tilec" --version | grep -qx "tilec $version" || fail "--version: $("$root/usr/bin/tilec" --version)"
"$root/usr/bin/tilec" "$source/examples/kernels/vector_add.tile" -o add.o -h add.h || fail "compile"
TILE_LLVM=none.so "$root/usr/bin/tilec" "$source/examples/kernels/vector_add.tile" --target=cuda:sm_90a -o add.cu ||
    fail "code for a GPU needs LLVM"
"$cc" -std=c11 "$source/examples/embed/softmax.c" -I "$root/usr/include" -L "$root/usr/lib" -ltile -o softmax || fail "link"
./softmax "$source/examples/kernels/softmax.tile" cpu || fail "run"
for file in share/man/man1/tilec.1 lib/libtile.a lib/pkgconfig/tile.pc lib/cmake/tile/tile-config.cmake \
    share/doc/tilec/copyright share/bash-completion/completions/tilec; do
    [ -f "$root/usr/$file" ] || fail "no $file"
done

# The tarball holds the tree, with neither build nor history.
tar xzf "$build/dist/tilec-$version.tar.gz" || fail "tarball"
for file in quickstart CMakeLists.txt .ci/run .clang-format README.md; do
    cmp "tilec-$version/$file" "$source/$file" || fail "$file in the tarball"
done
[ ! -e "tilec-$version/.git" ] && [ ! -e "tilec-$version/build" ] || fail "too much in the tarball"
echo "as expected"
