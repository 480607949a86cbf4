#!/bin/bash
# pages.sh TILEC SOURCE CC BUILD: the commands of README.md, then those of docs/embedding.md, "Install, and build with it", as they stand
# there, in order: in a folder that has the tree's files and the build, with a home folder of its own. `./quickstart` finds all built.
. "$(dirname "$0")/../tools/lib.sh"
. "$root/tests/tools/page.sh"
for tool in make pkg-config c++; do command -v $tool >/dev/null || { echo "SKIP: no $tool here"; exit 77; }; done
mkdir -p build bin home/.local/bin && ln -s "$4" build/release && cp -R "$root/examples" . || exit 1
for file in quickstart tools tests; do ln -s "$root/$file" $file; done
printf '#!/bin/sh\necho "a test installs no packages: $*" >&2\nexit 1\n' >bin/apt-get && chmod +x bin/apt-get
export HOME=$work/home TILE_NVRTC=$work/none.so PATH=$work/home/.local/bin:$work/bin:$PATH
unset PKG_CONFIG_PATH
run_page "$root/README.md"
[ "$commands" -ge 6 ] && [ "$compared" -ge 2 ] || fail "README.md: only $commands commands and $compared outputs"
for file in rows.o rows.h rows.cu y.npy; do [ -s $file ] || fail "$file is missing"; done
while read -r file; do [ -e "$root/$file" ] || fail "README.md names $file"; done < \
    <(grep -oE '\]\([^)]*\)' "$root/README.md" | tr -d ']()')
run_page "$root/docs/embedding.md" "Install, and build with it"
echo "$commands commands, $compared outputs"
[ "$commands" -ge 18 ] && [ "$compared" -ge 10 ] || fail "only $commands commands and $compared outputs"
finish
