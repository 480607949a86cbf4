#!/bin/bash
# usage.sh: command lines that are wrong end with status 2 and one line; --help and --version print to standard output.
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N], const int T = 16) grid (cdiv(N, T)) { let i = program_id(); store(Y[i*T +: T], load(X[i*T +: T])); }
T
cat >s.tile <<'T'
kernel s(in f32 X[N], out f32 Y[N], f32 s) grid (N) { let i = program_id(); store(Y[i], load(X[i]) * s); }
T
expect 2 "no .tile file given" "$tilec"
expect 0 "usage: tilec [compile] FILE.tile" "$tilec" -h
expect 0 "usage: tilec run FILE.tile" "$tilec" run -h
expect 2 "there is no command \`explian\`; did you mean \`tilec explain\`?" "$tilec" explian k.tile
expect 2 "there is no command \`rn\`; did you mean \`tilec run\`?" "$tilec" rn k.tile
expect 2 "one .tile file at a time, not 2: a.tile, b.tile" "$tilec" a.tile b.tile -o k.o
expect 2 "one .tile file at a time, not 2: a.tile, b.tile" "$tilec" bench a.tile b.tile
expect 2 "the command stands first: \`tilec run FILE.tile ...\`" "$tilec" k.tile run
expect 2 "no .tile file given (\`tilec run --help\` shows how)" "$tilec" run
expect 2 "there is no help on \`stages\`; \`tilec --help\` lists" "$tilec" --help=stages
expect 2 "option \`--bundle\` takes no value, found \`yes\`" "$tilec" k.tile --bundle=yes
expect 2 "unknown option \`-help\`; did you mean \`--help\`?" "$tilec" -help
expect 2 "unknown option \`-target\`; did you mean \`--target\`?" "$tilec" k.tile -target=cpu -o k.o
expect 2 "option \`--target\` wants a value, TARGET, before the option \`-o\`" "$tilec" k.tile --target -o k.o
expect 2 "unknown option \`--tarjet\`; did you mean \`--target\`?" "$tilec" k.tile --tarjet=cpu
expect 2 "unknown option \`--zzzzzzz\` (\`tilec compile --help\` lists them)" "$tilec" k.tile --zzzzzzz
expect 2 "\`tilec run\` takes no option \`-h\`" "$tilec" run k.tile -h k.h
expect 2 "option \`-o\` wants a value: FILE" "$tilec" k.tile -o
expect 2 "option \`--emit\` wants a value: STAGE" "$tilec" k.tile --emit=
expect 2 "option \`-O\` takes 0|1|2|3, not \`9\`" "$tilec" k.tile -O9 -o k.o
expect 2 "there is no target \`cuda:sm_1\`; there are cpu, cpu:aarch64, cuda:sm_80" "$tilec" k.tile --target=cuda:sm_1 -o k.cu
expect 2 "there is no stage \`soup\`; there are ast, ir, " "$tilec" k.tile --emit=soup
expect 2 "--emit=asm needs another target than cuda:sm_80: --target=cpu or --target=hip:gfx90a" "$tilec" k.tile --emit=asm --target=cuda:sm_80
expect 2 "--emit=cuda needs another target than cpu: --target=cuda:sm_80" "$tilec" k.tile --emit=cuda
expect 2 "there is no target \`sm_90a\`; did you mean \`cuda:sm_90a\`?" "$tilec" k.tile --target=sm_90a -o k.cu
expect 2 "-o FILE is missing, such as \`-o k.o\`" "$tilec" k.tile
expect 2 "-o FILE is missing, such as \`-o k.cu\`" "$tilec" ./k.tile --target=cuda:sm_80
expect 1 "cannot open missing.tile: No such file" "$tilec" missing.tile
expect 1 "cannot read $PWD: Is a directory" "$tilec" "$PWD"
expect 2 "there is no command or file \`build\`" "$tilec" build k.tile
expect 2 "\`cuda\` stands for the GPU of this machine, in run, bench and tune; here name one of cpu, " \
    "$tilec" k.tile --target=cuda -o k.cu
expect 2 "there is no target \`sm_80\`; did you mean \`cuda:sm_80\`?" "$tilec" explain k.tile --target=sm_80
expect 2 "\`tilec run\` takes no option \`-D\`; write \`--set NAME=VALUE\`" "$tilec" run k.tile -D T=16
expect 2 "\`tilec compile\` takes no option \`--set\`; write \`-D NAME=VALUE\`" "$tilec" k.tile --set T=16
expect 2 "\`tilec run\` takes no option \`-o\`; write \`--out NAME=FILE\`" "$tilec" run k.tile -o Y.npy
cat >t.tile <<'T'
kernel t(in T X[N], out T Y[N], const type T = f32) grid (N) { let i = program_id(); store(Y[i], load(X[i])); }
T
expect 1 "\`T\` must be a type like f32, not \`half\`; the type is called \`f16\`" "$tilec" t.tile -D T=half --emit=ir
expect 2 "-D wants NAME=VALUE, not \`T\`" "$tilec" k.tile -D T --emit=ir
expect 2 "--error-limit wants a number from 0 to 1048576, not \`many\`" "$tilec" k.tile --error-limit=many --emit=ast
expect 2 "there is no command \`frob\`" "$tilec" help frob
expect 2 "cannot open nothing.args" "$tilec" @nothing.args
expect 2 "the tensor X is missing: --in X=FILE.npy" "$tilec" run k.tile
expect 2 "--in Q: the kernel has no tensor of that name; it has X, Y" "$tilec" run k.tile --in Q=random:1
expect 2 "--in s: the kernel has no tensor of that name; scalars take --set" "$tilec" run s.tile --in s=3
expect 2 "X: \`rand:f32[4]:1\` is not understood; write random:f32[2, 64]:SEED" "$tilec" run k.tile --in 'X=rand:f32[4]:1'
expect 1 "is not of the kernel's type f32; write \`random:f32[4]:1\`" "$tilec" run k.tile --in 'X=random:f16[4]:1'
expect 2 "--in wants NAME=SOURCE, not \`X\`" "$tilec" run k.tile --in X
expect 2 "--print=Q: the launch has no tensor of that name; it has X, Y" "$tilec" run k.tile --in X=random:1 --set N=16 --print=Q
expect 2 "--in Y: it is an out argument" "$tilec" run k.tile --in Y=random:1
expect 2 "--out X: it is an in argument" "$tilec" run k.tile --in X=random:1 --out X=x.npy
expect 2 "\`random:f32[4\` is not understood" "$tilec" run k.tile --in 'X=random:f32[4'
expect 2 "option \`--in\` is given twice for X: \`X=random:1\` and \`X=ones:f32[4]\`" "$tilec" run k.tile --in X=random:1 --in 'X=ones:f32[4]'
expect 2 "option \`--out\` is given twice for Y: \`Y=a.npy\` and \`Y=b.npy\`" "$tilec" run k.tile --in 'X=ones:f32[4]' --out Y=a.npy --out=Y=b.npy
expect 2 "option \`--set\` is given twice for T" "$tilec" run k.tile --in 'X=ones:f32[4]' --set T=16 --set T=16
expect 2 "option \`-D\` is given twice for T: \`T=16\` and \`T=32\`" "$tilec" k.tile -D T=16 -D T=32 --emit=ir
expect 2 "option \`-o\` is given twice: \`a.o\` and \`b.o\`" "$tilec" k.tile -o a.o -ob.o
expect 2 "several targets want --bundle" "$tilec" k.tile --target=cpu,cuda:sm_80 -o k.o
expect 2 "several targets want --bundle" "$tilec" k.tile --target=cpu --target=cuda:sm_80 -o k.o
expect 2 "there is no command or file \`frob\`" "$tilec" frob
expect 2 "--set s=1e39: no value of type f32" "$tilec" run s.tile --in 'X=ones:f32[4]' --set s=1e39
expect 0 "" "$tilec" run s.tile --in 'X=ones:f32[4]' --set s=-inf
expect 2 "--repeat wants a number from 1 to 10000" "$tilec" run k.tile --in 'X=ones:f32[4]' --repeat=0
expect 1 "two outputs go to k.both" "$tilec" k.tile -o k.both -h k.both
expect 1 "two outputs go to -" "$tilec" k.tile -o - -h -
expect 1 "k.tile is an input, and would be written to" "$tilec" k.tile -o ./k.tile
expect 1 "k.tile is an input, and would be written to" "$tilec" k.tile --emit=ir -o k.tile
[ -e k.both ] && fail "half an output"
expect 2 "option \`--target\` is given twice: \`cpu\` and \`interp\`" "$tilec" run k.tile --target=cpu --target interp
expect 0 "" "$tilec" run k.tile --in 'X=ones:f32[4]' -O1 -O2 -I . -I .. --check --check
printf '@b.args\n' >a.args; printf '@a.args' >b.args
expect 2 "@files are nested more than 8 deep" "$tilec" @a.args
printf -- "'k.tile" >quote.args
expect 2 "a quotation mark is never closed" "$tilec" @quote.args

expect 0 "usage: tilec [compile] FILE.tile" "$tilec" --help
expect 0 "usage: tilec run FILE.tile" "$tilec" run --help
expect 0 "usage: tilec bench" "$tilec" help bench
expect 0 "cuda:sm_90a" "$tilec" --version
[ -z "$("$tilec" --help 2>&1 >/dev/null)" ] || fail "--help wrote to standard error"
finish
