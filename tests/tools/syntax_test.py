"""syntax_test.py ROOT TILEC: the files of editors/ against the compiler.

They are what tools/syntax.py writes. The tree-sitter grammar takes the examples, and of programs with a token
changed those that the compiler's parser takes. The TextMate grammar and the Vim file give the words of a sample
the classes of tests/tools/syntax/sample.scopes and sample.groups; UPDATE=1 writes these two."""

import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys

root, tilec = sys.argv[1:]
sys.path.insert(0, os.path.join(root, "tools"))
sys.dont_write_bytecode = True
import syntax

failures = 0


def fail(text):
    global failures
    failures += 1
    print("FAIL:", text)


# --- a recognizer (Earley's) for the rules of the tree-sitter grammar -----------------------------------


class Recognizer:
    def __init__(self, rules):
        self.rules, self.rows = rules, {}
        self.rows["source_file"] = self.expand(rules["source_file"])
        for name, rule in rules.items():
            self.rows[name] = self.expand(rule)

    def helper(self, rows_of):
        name = f"#{len(self.rows)}"
        self.rows[name] = []
        self.rows[name] = rows_of(name)
        return name

    def expand(self, rule):
        """The rule as alternatives, each a list of symbols; rules within it get names of their own."""
        kind, *parts = rule
        if kind in ("left", "right", "field"):
            return self.expand(parts[1])
        if kind == "choice":
            return [row for part in parts for row in self.expand(part)]
        if kind == "seq":
            return [[self.part(part) for part in parts]]
        return [[self.part(rule)]]

    def part(self, rule):
        kind, *parts = rule
        if kind == "text":
            return ("token", parts[0])
        if kind == "rule":
            return parts[0] if parts[0] in self.rules else ("token", parts[0])
        if kind == "optional":
            return self.helper(lambda name: [[]] + self.expand(parts[0]))
        if kind in ("repeat", "repeat1"):
            item = self.helper(lambda name: self.expand(parts[0]))
            return self.helper(lambda name: [[] if kind == "repeat" else [item], [name, item]])
        return self.helper(lambda name: self.expand(rule))

    def accepts(self, tokens):
        empty = {name for name, rows in self.rows.items() if [] in rows}
        sets = [{} for _ in range(len(tokens) + 1)]
        for row in self.rows["source_file"]:
            sets[0][("source_file", tuple(row), 0, 0)] = True
        for at in range(len(tokens) + 1):
            queue, here, waiting = list(sets[at]), sets[at], {}
            for item in queue:
                name, row, dot, begin = item
                found = []
                if dot == len(row):
                    for one in (
                        list(waiting.get(name, ())) if begin == at else self.waiting[begin].get(name, ())
                    ):
                        found.append((one[0], one[1], one[2] + 1, one[3]))
                elif isinstance(row[dot], tuple):
                    if at < len(tokens) and row[dot][1] in tokens[at]:
                        sets[at + 1][(name, row, dot + 1, begin)] = True
                else:
                    symbol = row[dot]
                    first = symbol not in waiting
                    waiting.setdefault(symbol, []).append(item)
                    if first:
                        found = [(symbol, tuple(one), 0, at) for one in self.rows[symbol]]
                    if symbol in empty:
                        found.append((name, row, dot + 1, begin))
                for one in found:
                    if one not in here:
                        here[one] = True
                        queue.append(one)
            if at == 0:
                self.waiting = []
            self.waiting.append(waiting)
            if not here:
                return False
        return any(
            name == "source_file" and dot == len(row) and begin == 0 for name, row, dot, begin in sets[-1]
        )


class Lexer:
    """The tokens of the tree-sitter grammar: the longest match, a text of a rule before a pattern."""

    def __init__(self, tables):
        signs = sorted(tables.operators, key=len, reverse=True)
        self.words = set(tables.keywords + tables.literals)
        self.patterns = [(name, re.compile(text)) for name, text in syntax.TREE_TOKENS.items()]
        self.signs = re.compile("|".join(re.escape(text) for text in signs))

    def split(self, text):
        """Tokens as (text, name); None when a part of the text is none."""
        tokens, at = [], 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            found = [(len(m[0]), name) for name, p in self.patterns if (m := p.match(text, at))]
            sign = self.signs.match(text, at)
            found += [(len(sign[0]), "sign")] if sign else []
            if not found:
                return None
            length, name = max(found, key=lambda one: one[0])
            word = text[at : at + length]
            at += length
            if name != "comment":
                tokens.append((word, word if name == "sign" or word in self.words else name))
        return tokens


def kinds(tokens):
    return [{name} for _, name in tokens]


def check_grammar(tables):
    recognizer, lexer = Recognizer(tables.grammar.rules), Lexer(tables)
    programs = sorted(glob.glob(f"{root}/examples/kernels/*.tile"))[::5] + [
        f"{root}/tests/tools/fmt/blanks.expected"
    ]
    for path in programs:
        with open(path, encoding="utf-8") as file:
            if not recognizer.accepts(kinds(lexer.split(file.read()))):
                fail(f"the tree-sitter grammar refuses {path}")
    with open(f"{root}/tests/tools/fmt/blanks.expected", encoding="utf-8") as file:
        whole = lexer.split(file.read())
    chance, taken = random.Random(1), 0
    for _ in range(100):
        tokens, at = list(whole), chance.randrange(len(whole))
        other = chance.choice(whole)
        change = chance.randrange(3)
        if change == 0:
            del tokens[at]
        elif change == 1:
            tokens.insert(at, other)
        else:
            tokens[at] = other
        text = " ".join(word for word, _ in tokens)
        parsed = subprocess.run([tilec, "fmt", "-"], input=text.encode(), capture_output=True).returncode == 0
        taken += parsed
        if recognizer.accepts(kinds(tokens)) != parsed:
            fail(f"the parser {'takes' if parsed else 'refuses'}, and the tree-sitter grammar not:\n{text}")
    if not 10 < taken < 90:
        fail(f"of 100 changed programs the parser takes {taken}")


# --- highlighting ---------------------------------------------------------------------------------------


def scopes(grammar, text):
    """(line, word, scope) as an editor with TextMate grammars gives them; each pattern at each place, in order."""
    rows, inside = [], None
    for number, line in enumerate(text.splitlines(), 1):
        at = 0
        while at < len(line):
            if inside:
                end = re.compile(inside["end"]).search(line, at)
                stop = end.start() if end else len(line)
                nested = [
                    m
                    for p in inside.get("patterns", ())
                    if (m := re.compile(p["match"]).search(line, at)) and m.start() < stop
                ]
                if nested:
                    stop = nested[0].end()
                    end = None
                rows.append((number, line[at : end.end() if end else stop], inside["name"]))
                at = end.end() if end else stop
                inside = None if end else inside
                continue
            for pattern in grammar["patterns"]:
                found = re.compile(pattern.get("match") or pattern["begin"]).match(line, at)
                if not found or not found[0]:
                    continue
                if "begin" in pattern:
                    inside = pattern
                for group, capture in pattern.get("captures", {}).items():
                    rows.append((number, found[int(group)], capture["name"]))
                if "captures" not in pattern:
                    rows.append((number, found[0], pattern["name"]))
                at = found.end()
                break
            else:
                at += 1
    return "".join(f"{number} {word.strip()} {scope}\n" for number, word, scope in rows if word.strip())


def compare(name, got):
    path = f"{root}/tests/tools/syntax/{name}"
    if os.environ.get("UPDATE"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(got)
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    if got != expected:
        fail(f"{name} has other lines: {sorted(set(got.splitlines()) ^ set(expected.splitlines()))[:10]}")


def check_textmate(tables, sample):
    with open(f"{root}/editors/vscode/syntaxes/tile.tmLanguage.json", encoding="utf-8") as file:
        got = scopes(json.load(file), sample)
    compare("sample.scopes", got)
    # Every keyword, and every name of the tables that the sample has, has the scope of its kind.
    for words, scope in (
        (tables.keywords, r"(storage|keyword)\."),
        (tables.literals, r"constant\.language"),
        (tables.types, r"support\.type"),
        (tables.constants, r"constant\.language"),
    ):
        for text in words:
            for line in re.findall(rf"^\d+ {text} (.*)$", got, re.M):
                if not re.match(scope, line):
                    fail(f"`{text}` has the scope {line}")


def check_vim(sample_path):
    """Vim's groups of the sample, where there is a Vim with syntax."""
    vim = shutil.which("vim")
    if (
        not vim
        or "+syntax" not in subprocess.run([vim, "--version"], capture_output=True, text=True).stdout.split()
    ):
        print("no vim with syntax: its file is not tried")
        return
    script = """
        let out = []
        for l in range(1, line('$'))
            let [last, from] = ['', 1]
            for c in range(1, col([l, '$']))
                let name = c < col([l, '$']) ? synIDattr(synID(l, c, 1), 'name') : ''
                if name != last
                    if last != '' | call add(out, l . ' ' . trim(getline(l)[from - 1 : c - 2]) . ' ' . last) | endif
                    let [last, from] = [name, c]
                endif
            endfor
        endfor
        call writefile(out, 'groups.out')
        qa!
    """
    with open("groups.vim", "w", encoding="utf-8") as file:
        file.write("\n".join(line.strip() for line in script.splitlines()))
    subprocess.run(
        [
            vim,
            "-es",
            "-u",
            "NONE",
            "-i",
            "NONE",
            "-n",
            "-c",
            "set nocompatible",
            sample_path,
            "-c",
            f"source {root}/editors/vim/syntax/tile.vim",
            "-c",
            "source groups.vim",
            "-c",
            "qa!",
        ],
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    with open("groups.out", encoding="utf-8") as file:
        compare("sample.groups", file.read())


def check_javascript(tables):
    """grammar.js, run by node with functions that give the rules back."""
    node = shutil.which("node")
    if not node:
        print("no node: grammar.js is not run")
        return
    program = """
        const names = new Proxy({}, { get: (_, name) => ['rule', name] });
        const rule = x => x instanceof RegExp ? ['pattern', x.source] : typeof x === 'string' ? ['text', x] : x;
        for (const kind of ['seq', 'choice', 'repeat', 'repeat1', 'optional'])
            globalThis[kind] = (...parts) => [kind, ...parts.map(rule)];
        globalThis.field = (name, x) => ['field', name, rule(x)];
        globalThis.prec = { left: (n, x) => ['left', n, rule(x)], right: (n, x) => ['right', n, rule(x)] };
        globalThis.token = Object.assign(x => ['token', rule(x)], { immediate: x => ['immediate', rule(x)] });
        globalThis.grammar = g => g;
        const g = require(process.argv[1]);
        const rules = Object.fromEntries(Object.entries(g.rules).map(([name, f]) => [name, rule(f(names))]));
        console.log(JSON.stringify({ name: g.name, word: g.word(names), extras: g.extras(names).map(rule), rules }));
    """
    done = subprocess.run(
        [node, "-e", program, f"{root}/editors/tree-sitter-tile/grammar.js"], capture_output=True, text=True
    )
    if done.returncode:
        fail(f"node refuses grammar.js: {done.stderr}")
        return
    got = json.loads(done.stdout)
    want = json.loads(json.dumps(tables.grammar.rules))
    tokens = {name: ["token", ["pattern", text]] for name, text in syntax.TREE_TOKENS.items()}
    tokens["_float"] = tokens["float"]
    tokens["float"] = ["choice", ["rule", "_float"], ["seq", ["rule", "integer"], ["immediate", ["text", "."]]]]
    if got["rules"] != {**want, **tokens} or got["word"] != ["rule", "identifier"]:
        fail("grammar.js has other rules than tools/syntax.py")


def check_queries(tables):
    """Each node that highlights.scm names is one of the grammar."""
    with open(f"{root}/editors/tree-sitter-tile/queries/highlights.scm", encoding="utf-8") as file:
        text = re.sub(r'"(\\.|[^"\\])*"', "", file.read())
    for name in re.findall(r"\((\w+)", text):
        if name not in tables.grammar.rules and name not in syntax.TREE_TOKENS:
            fail(f"highlights.scm names {name}, which the grammar does not have")


def main():
    tables = syntax.Tables(root)
    for path, text in syntax.files(tables).items():
        if not os.path.exists(f"{root}/editors/{path}") or syntax.read(root, f"editors/{path}") != text:
            fail(f"editors/{path} is not what the tables say: python3 tools/syntax.py .")
    for path in glob.glob(f"{root}/editors/vscode/**/*.json", recursive=True):
        with open(path, encoding="utf-8") as file:
            json.load(file)
    sample = f"{root}/tests/tools/syntax/sample.tile"
    check_grammar(tables)
    with open(sample, encoding="utf-8") as file:
        check_textmate(tables, file.read())
    check_vim(sample)
    check_javascript(tables)
    check_queries(tables)
    print("all as expected" if not failures else f"{failures} failures")
    sys.exit(failures > 0)


main()
