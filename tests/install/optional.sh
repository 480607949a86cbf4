#!/bin/bash
# optional.sh SOURCE: an optional package of quickstart that cannot be installed is named, and quickstart goes
# on. Its functions run with tools that stand in for the package manager's.
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
mkdir bin build
printf '#!/bin/sh\necho "$@" >>%s/asked\n[ "$1" = update ]\n' "$work" >bin/apt-get
printf '#!/bin/sh\necho "there ii "\n' >bin/dpkg-query
printf '#!/bin/sh\necho 0\n' >bin/id
chmod +x bin/*
sed -n '/^say()/,/^mkdir -p build/p' "$1/quickstart" | sed '$d' >functions
out=$(PATH=$work/bin:$PATH bash -c '. ./functions
    optional_packages there absent; echo "status $?"
    (packages absent); echo "status $?"' 2>&1)
[[ $out == *"  goes on without: absent"*"status 0"* && $out == *"quickstart: failed: packages"*"status 1" ]] ||
    { echo "$out"; exit 1; }
grep -q '^install .* absent$' asked || { cat asked; exit 1; }
