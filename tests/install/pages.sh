#!/bin/bash
# pages.sh TILEC SOURCE CC BUILD: the commands of docs/embedding.md, "Install, and build with it", as they stand there, in order: on a copy
# of the examples, with a home folder of its own.
. "$(dirname "$0")/../tools/lib.sh"
. "$(dirname "$0")/../tools/page.sh"
for tool in make pkg-config c++; do command -v $tool >/dev/null || { echo "SKIP: no $tool here"; exit 77; }; done
mkdir -p build home && ln -s "$4" build/release && cp -R "$root/examples" . || exit 1
export HOME=$work/home TILE_NVRTC=$work/none.so
unset PKG_CONFIG_PATH
run_page "$root/docs/embedding.md" "Install, and build with it"
echo "$commands commands, $compared outputs"
[ "$commands" -ge 12 ] && [ "$compared" -ge 8 ] || fail "only $commands commands and $compared outputs"
finish
