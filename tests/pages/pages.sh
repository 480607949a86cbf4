#!/bin/bash
# pages.sh TILEC SOURCE CC BUILD PAGE: the commands of PAGE as they stand there, in order, and what they
# print: in a folder that has the tree's files and the build, with a home folder of its own. `./quickstart`
# finds all built, and there is no compiler for GPUs.
. "$(dirname "$0")/../tools/lib.sh"
. "$root/tests/pages/page.sh"
build=$4 page_name=$5
for tool in make pkg-config c++; do
    page_commands "$root/$page_name" | grep -qwF -- "$tool" || continue
    command -v $tool >/dev/null || { echo "SKIP: no $tool here"; exit 77; }
done
# cannot_run COMMAND: why this machine cannot run it, or a status that is not 0
cannot_run() {
    case $1 in
        gdb\ *)
            gdb -batch -nx -ex run --args true 2>&1 | grep -q 'exited normally' && return 1
            echo "no gdb here that may trace" ;;
        'python3 -m venv'* | pip\ *)
            python3 -c 'import ensurepip' 2>/dev/null && return 1
            echo "no python3-venv here" ;;
        *) return 1 ;;
    esac
}
mkdir -p build bin home/.local/bin && ln -s "$build" build/release && cp -R "$root/examples" . || exit 1
# The demonstration of ./quickstart is compiled once for a build, not once for a page.
mkdir -p "$build/pages_demo" && ln -s "$build/pages_demo" build/demo
cp -R "$root/bindings" .
for file in quickstart tools tests docs; do ln -s "$root/$file" $file; done
printf '#!/bin/sh\necho "a test installs no packages: $*" >&2\nexit 1\n' >bin/apt-get && chmod +x bin/apt-get
ln -s "$tilec" bin/tilec
export PIP_DISABLE_PIP_VERSION_CHECK=1 TILE_NVRTC=$work/none.so TILE_CLANG=$work/none
export HOME=$work/home PATH=$work/home/.local/bin:$work/bin:$PATH
unset PKG_CONFIG_PATH
run_page "$root/$page_name"
while read -r file; do [ -e "$(dirname "$root/$page_name")/$file" ] || fail "$page_name names $file"; done < \
    <(sed 's/`[^`]*`//g' "$root/$page_name" | grep -oE '\]\([^)#]+' | sed 's/^](//' | grep -vE '^(https?|mailto):')
[ -s times ] && awk '{ sum += $1 + $2 } END { printf "%.1f s of processor time, of it:\n", sum }' times &&
    sort -k 1gr times | head -3 | sed 's/^/  /'
echo "$commands commands, $compared outputs"
finish
