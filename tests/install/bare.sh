#!/bin/bash
# bare.sh CMAKE BUILD SOURCE: the packages and the source tarball on a bare Debian. debootstrap makes a root with
# nothing but Debian's essential packages; apt installs the three .deb files there with what they declare to need,
# and the root runs tilec, a kernel, and a C program that pkg-config finds libtile for. Then `./quickstart` of the
# source tarball installs what it names, builds the tree and checks a kernel, and what it built is installed.
#
# It takes minutes, the network, root and 3 GB of disk, so it runs only if TILE_BARE_DEBIAN is set: to `packages`,
# or to `all` with the tarball. TILE_BARE_SUITE names another release than bookworm, TILE_BARE_MIRROR a mirror,
# TILE_BARE_ROOT a root that debootstrap has made, which is copied.
cmake=$1 build=$2 source=$3
set -u
skip() { echo "SKIP: $*"; exit 77; }
fail() { echo "FAIL: $*"; exit 1; }
case ${TILE_BARE_DEBIAN:-} in
    packages | all) ;;
    *) skip "set TILE_BARE_DEBIAN=packages or all: it fetches a Debian and takes minutes" ;;
esac
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" = 0 ] || skip "debootstrap and chroot need root"
[ -n "${TILE_BARE_ROOT:-}" ] || command -v debootstrap >/dev/null || skip "no debootstrap (Debian: debootstrap)"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces here"
suite=${TILE_BARE_SUITE:-bookworm} mirror=${TILE_BARE_MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
"$cmake" --build "$build" --target dist >"$work/log" 2>&1 || fail "dist: $(tail -20 "$work/log")"
if [ -n "${TILE_BARE_ROOT:-}" ]; then cp -a "$TILE_BARE_ROOT" "$root" || exit 1
else
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/log" 2>&1 ||
        skip "debootstrap cannot fetch $suite from $mirror: $(tail -1 "$work/log")"
fi
printf 'deb %s %s main\ndeb %s %s-updates main\ndeb %s-security %s-security main\n' \
    "$mirror" "$suite" "$mirror" "$suite" "$mirror" "$suite" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# inside COMMAND: bash in the root, with its own /proc and processes
inside() {
    unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/bash -ec "$1"' "$root" \
        "unset TMPDIR; export DEBIAN_FRONTEND=noninteractive LC_ALL=C HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin; cd /packages; $1" >"$work/log" 2>&1
}
step() { inside "$2" || fail "$1: $(tail -20 "$work/log")"; echo "$1: as expected"; }
mkdir "$root/packages"
cp "$build"/dist/*.deb "$source/examples/kernels/"{vector_add,softmax}.tile "$source/examples/embed/softmax.c" "$root/packages/"
step "package lists" "apt-get update"
step "nothing of LLVM is there before" "! ls /usr/lib/*/libLLVM* 2>/dev/null"
step "tilec and libtile0 with what they declare" "apt-get install -y --no-install-recommends ./tilec_*.deb ./libtile0_*.deb"
version=$(sed -nE 's/^project\(tile VERSION ([0-9.]+).*/\1/p' "$source/CMakeLists.txt")
step "tilec --version" "tilec --version | grep -qx 'tilec $version'"
step "each file finds its libraries" \
    "for f in \$(dpkg -L tilec libtile0); do ! ldd \$f 2>/dev/null | grep -q 'not found' || { echo \$f; exit 1; }; done"
step "a kernel is compiled and run" "tilec run vector_add.tile --in X=ones:f32[1000] --in Y=ones:f32[1000] --out Z=z.npy; [ -s z.npy ]"
step "a kernel becomes an object" "tilec vector_add.tile -o add.o -h add.h; [ -s add.o ]"
step "libtile-dev, a C compiler and pkg-config" "apt-get install -y --no-install-recommends ./libtile-dev_*.deb gcc libc6-dev pkg-config"
step "a C program by pkg-config" \
    "gcc -std=c11 softmax.c \$(pkg-config --cflags --libs tile) -o softmax; ./softmax softmax.tile cpu"
step "a shared library" "tilec vector_add.tile --shared -o add.so; [ -s add.so ]"
[ "$TILE_BARE_DEBIAN" = packages ] && exit 0
cp "$build/dist/tilec-$version.tar.gz" "$root/packages/"
step "the tarball" "tar xzf tilec-$version.tar.gz"
step "./quickstart in its tree" "cd tilec-$version; ./quickstart"
tail -1 "$work/log"
step "what it has built is installed" \
    "cd tilec-$version; cmake --install build/release --prefix /opt/tile; /opt/tile/bin/tilec --version | grep -qx 'tilec $version'"
step "a kernel by the installed command" \
    "/opt/tile/bin/tilec run vector_add.tile --in X=ones:f32[1000] --in Y=ones:f32[1000] --out Z=own.npy; cmp z.npy own.npy"
