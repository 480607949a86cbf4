#!/usr/bin/env python3
"""Writes the files of editors/ from the compiler's tables: keywords and grammar of frontend/parse/parser.y, types
of ir/type.def, operations of frontend/check/builtins.def, hints of ir/hints.def, values of ir/enums.def, clauses of
frontend/check/check.c and frontend/check/check_tune.c. The forms of numbers and comments are those of frontend/parse/lexer.l.

    python3 tools/syntax.py ROOT            writes ROOT/editors
    python3 tools/syntax.py ROOT --check    compares them; exit status 1 when one differs
"""

import json
import os
import re
import sys

HEAD = "Written by tools/syntax.py from the compiler's tables; a test compares them."


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


# --- tables ---------------------------------------------------------------------------------------------


class Tables:
    """The words of the language, by what they are."""

    def __init__(self, root):
        parser = read(root, "frontend/parse/parser.y")
        tokens = {}  # name in the grammar -> its text
        for line in re.findall(r"^%token (?!<)(.*)$", parser, re.M):
            for name, text in re.findall(r'([A-Z]+|\'.\')(?: \d+)? "`([^`]+)`"', line):
                tokens[name] = text
        self.tokens = tokens
        words = [text for text in tokens.values() if text[0].isalpha()]
        self.literals = [word for word in words if word in ("true", "false", "None")]
        self.keywords = [word for word in words if word not in self.literals]
        self.operators = [text for text in tokens.values() if not text[0].isalpha()]
        self.types = re.findall(r'^DTYPE\(\w+, *"(\w+)"', read(root, "ir/type.def"), re.M)
        self.kinds = sorted(set(re.findall(r'type->name, "(\w+)"', read(root, "frontend/check/check_names.c"))))
        builtins = re.findall(r'^BUILTIN\((\w+), *"([^"]*)"', read(root, "frontend/check/builtins.def"), re.M)
        self.functions = [name for name, _ in builtins]
        self.options = sorted(
            {
                word.rstrip("?")
                for _, signature in builtins
                if "*" in signature
                for word in signature.split("*")[1].split()
            }
        )
        self.clauses = re.findall(r'strcmp\(k->name, "(\w+)"', read(root, "frontend/check/check.c"))
        self.clauses += sorted(
            set(re.findall(r'strcmp\(e->name, "(\w+)"', read(root, "frontend/check/check_tune.c")))
        )
        self.hints = re.findall(r"^HINT\((\w+),", read(root, "ir/hints.def"), re.M)
        self.hints += re.findall(r'known\[\] = \{ "(\w+)"', read(root, "frontend/check/check_stmt.c"))
        self.values = []
        for enum, rest in re.findall(r"^ENUM\((\w+)\)(.*)$", read(root, "ir/enums.def"), re.M):
            if enum in ("CACHE", "PRECISION", "SEM", "SCOPE"):
                self.values += re.findall(r'"(\w+)"', rest)
        self.constants = re.findall(r'strcmp\(n->name, "(\w+)"', read(root, "frontend/lower/lower_expr.c"))
        self.grammar = Grammar(parser, tokens)
        for name in (
            "keywords",
            "literals",
            "operators",
            "types",
            "kinds",
            "functions",
            "options",
            "clauses",
            "hints",
            "values",
            "constants",
        ):
            if not getattr(self, name):
                sys.exit(f"syntax.py: no {name} found in the tables")


# --- the grammar ----------------------------------------------------------------------------------------
# A rule is a tuple: ("text", "kernel"), ("rule", "block"), ("seq", ...), ("choice", ...), ("repeat", x),
# ("repeat1", x), ("optional", x), ("left", precedence, x), ("right", precedence, x), ("field", name, x).


def without_actions(text):
    """The rules of a Bison grammar without comments and actions."""
    out, depth, i = [], 0, 0
    while i < len(text):
        quoted = re.compile(r"'(?:\\.|[^'])'|\"(?:\\.|[^\"\\])*\"|/\*.*?\*/", re.S).match(text, i)
        if quoted:
            out.append("" if depth or quoted[0].startswith("/*") else quoted[0])
            i = quoted.end()
            continue
        depth += text[i] == "{"
        if not depth:
            out.append(text[i])
        depth -= text[i] == "}"
        i += 1
    return "".join(out)


class Grammar:
    """The rules of parser.y, in the form of tree-sitter's."""

    TERMINALS = {"IDENT": "identifier", "INT": "integer", "FLOAT": "float", "STRING": "string"}
    FIRST = "cond"  # the expressions begin here
    LAST = "unary"

    def __init__(self, parser, tokens):
        self.tokens = tokens
        self.bison = {}
        for name, body in re.findall(
            r"(\w+):(.*?)\n?\s*;(?=\s|$)", self.quote(without_actions(parser.split("%%")[1])), re.S
        ):
            self.bison[name] = [alternative.split() for alternative in body.split("|")]
        for name in self.recovery():
            del self.bison[name]
        self.nullable = {name for name, rows in self.bison.items() if ["%empty"] in rows}
        self.chain = self.expression_chain()
        self.rules = {}
        for name in self.bison:
            if name == "file":
                self.rules["source_file"] = ("repeat", self.symbol("item"))
            elif name in ("item", "statement"):
                self.by_keyword(name)
            elif name not in self.chain and name not in ("postfix", "primary", "items", "comma"):
                self.rules[self.name(name)] = self.rule(name)
        self.expressions()

    def recovery(self):
        """The rules that only alternatives for errors name: they are no part of the language."""
        rows = [row for rows in self.bison.values() for row in rows]
        named = {word for row in rows if "error" not in row for word in row}
        return {word for row in rows if "error" in row for word in row if word in self.bison} - named

    @staticmethod
    def quote(text):
        """Characters that mean something in Bison, as words."""
        for char, word in ((":", "COLON"), (";", "SEMICOLON"), ("|", "BAR")):
            text = text.replace(f"'{char}'", word)
        return text

    def name(self, bison):
        """The name of a rule: that of the grammar; those that only pass on what they hold are hidden."""
        hidden = ("expr", "item", "statement", "primary", "entry", "axis", "arg", "target", "target_name")
        lists = bison.endswith(("s", "_list")) or bison in ("assign", "io")
        return {"expr": "_expression"}.get(bison, "_" + bison if bison in hidden or lists else bison)

    def symbol(self, word):
        """One symbol of an alternative."""
        char = {"COLON": ":", "SEMICOLON": ";", "BAR": "|"}.get(word)
        if char or word.startswith("'"):
            return ("text", char or word[1])
        if word in self.TERMINALS:
            return ("rule", self.TERMINALS[word])
        if word in self.tokens:
            return ("text", self.tokens[word])
        if word in self.chain or word in ("postfix", "primary"):
            return ("rule", "_expression")
        if word == "comma":
            return ("optional", ("text", ","))
        rule = ("rule", self.name(word))
        return ("optional", rule) if word in self.nullable else rule

    def sequence(self, words):
        parts = [self.symbol(word) for word in words]
        return parts[0] if len(parts) == 1 else ("seq", *parts)

    def rule(self, name):
        """Lists become repetitions; what may be empty is optional where it is used."""
        rows = [row for row in self.bison[name] if "error" not in row and row != ["%empty"]]
        again = [row[1:] for row in rows if row[0] == name]
        begin = [row for row in rows if row[0] != name]
        more = [self.sequence(row) for row in again]
        if again and not begin:
            return ("repeat1", more[0] if len(more) == 1 else ("choice", *more))
        parts = [self.sequence(row) for row in begin]
        first = parts[0] if len(parts) == 1 else ("choice", *parts)
        return ("seq", first, ("repeat", more[0])) if again else first

    def by_keyword(self, name):
        """The alternatives of an item or a statement as rules, by the keyword that begins them."""
        groups, plain = {}, []
        for row in self.bison[name]:
            if "error" in row:
                continue
            if len(row) == 1:
                plain.append(self.symbol(row[0]))
            elif row[0] in self.tokens:
                groups.setdefault(f"{self.tokens[row[0]]}_{name}", []).append(self.sequence(row))
            else:
                kind = "assignment" if row[1] == "assign" else f"expression_{name}"
                groups.setdefault(kind, []).append(self.sequence(row))
        self.rules["_" + name] = ("choice", *plain, *[("rule", kind) for kind in groups])
        for kind, parts in groups.items():
            self.rules[kind] = parts[0] if len(parts) == 1 else ("choice", *parts)

    def expression_chain(self):
        """The levels of precedence, the loosest first: each is the next one, or operators between the two."""
        chain, name = ["expr"], self.FIRST
        while name != self.LAST:
            chain.append(name)
            name = next(row[0] for row in self.bison[name] if len(row) == 1)
        return chain + [self.LAST]

    def expressions(self):
        """The levels as one rule for operators of two operands, with precedences."""
        expression, rows = ("rule", "_expression"), []
        for level, name in enumerate(self.chain):
            for row in self.bison[name]:
                if len(row) == 1:
                    continue
                parts = [self.symbol(word) for word in row]
                if len(row) == 5:
                    self.rules["conditional_expression"] = ("right", level, ("seq", *parts))
                elif len(row) == 3:
                    operator = ("field", "operator", parts[1])
                    rows.append(
                        (
                            "left",
                            level,
                            ("seq", ("field", "left", expression), operator, ("field", "right", expression)),
                        )
                    )
                else:
                    self.rules.setdefault(
                        "unary_expression",
                        (
                            "right",
                            level,
                            ("seq", ("field", "operator", ("choice",)), ("field", "operand", expression)),
                        ),
                    )
                    choice = self.rules["unary_expression"][2][1]
                    operators = choice[2] + (parts[0],)
                    self.rules["unary_expression"] = (
                        "right",
                        level,
                        ("seq", ("field", "operator", operators), ("field", "operand", expression)),
                    )
        self.rules["binary_expression"] = ("choice", *rows)
        top = len(self.chain)
        postfix = [row for row in self.bison["postfix"] if len(row) > 1]
        self.rules["subscript"] = (
            "left",
            top,
            self.sequence(next(row for row in postfix if row[0] == "postfix")),
        )
        call = next(row for row in postfix if row[0] == "IDENT")
        self.rules["call"] = (
            "left",
            top,
            ("seq", ("field", "function", self.symbol(call[0])), *[self.symbol(word) for word in call[1:]]),
        )
        primary = [self.sequence(row) for row in self.bison["primary"]]
        brackets = [part for part in primary if part[0] == "seq" and part[1] == ("text", "(")]
        self.rules["parenthesized_expression"] = brackets[0]
        self.rules["tuple"] = ("choice", *brackets[1:])
        self.rules["list"] = next(part for part in primary if part[0] == "seq" and part[1] == ("text", "["))
        plain = [part for part in primary if part[0] != "seq"]
        kinds = (
            "conditional_expression",
            "binary_expression",
            "unary_expression",
            "subscript",
            "call",
            "parenthesized_expression",
            "tuple",
            "list",
        )
        self.rules["_expression"] = ("choice", *[("rule", kind) for kind in kinds], *plain)


# --- tree-sitter ----------------------------------------------------------------------------------------

# The tokens of lexer.l. The lexer of tree-sitter looks no further than a token, so `1.` cannot be one: in `0..N` the
# number ends before the points. It is the rule below: the lexer prefers the longer `..` to a point behind a number.
TREE_TOKENS = {
    "identifier": r"[A-Za-z_][A-Za-z0-9_]*",
    "integer": r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*",
    "float": r"([0-9][0-9_]*)?\.[0-9][0-9_]*([eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+",
    "string": r'"([^"\\\n]|\\[^\n])*"',
    "comment": r"\/\/[^\n]*|\/\*[^*]*\*+([^\/*][^*]*\*+)*\/",
}


def filled(words, indent):
    """The words on lines of at most 110 columns."""
    lines, line = [], ""
    for word in words:
        if line and indent + len(line) + len(word) + 1 > 110:
            lines.append(" " * indent + line)
            line = ""
        line += (" " if line else "") + word
    return lines + [" " * indent + line]


def javascript(rule, indent):
    """A rule as a call of tree-sitter's functions, on as many lines as it needs."""
    kind, *rest = rule
    if kind == "text":
        return json.dumps(rest[0])
    if kind == "rule":
        return "$." + rest[0]
    name = f"prec.{kind}" if kind in ("left", "right") else kind
    first = [json.dumps(part) for part in rest if not isinstance(part, tuple)]
    parts = [part for part in rest if isinstance(part, tuple)]
    line = f"{name}({', '.join(first + [javascript(part, 0) for part in parts])})"
    if indent + len(line) <= 80 and "\n" not in line:
        return line
    inner = first + [javascript(part, indent + 2) for part in parts]
    return f"{name}(\n" + "".join(" " * (indent + 2) + text + ",\n" for text in inner) + " " * indent + ")"


def comma_lists(grammar):
    """The hidden rules that are lists with commas. A comma may also stand behind the last element, so a parser
    that looks one token ahead cannot tell where such a list ends: tree-sitter has to inline them."""
    comma = ("text", ",")
    return [
        name
        for name, rule in grammar.rules.items()
        if name[0] == "_" and rule[0] == "seq" and rule[-1][0] == "repeat" and rule[-1][1][:2] == ("seq", comma)
    ]


def grammar_js(tables):
    rules = [f"    {name}: $ => {javascript(rule, 4)}," for name, rule in tables.grammar.rules.items()]
    lists = "\n".join(filled([f"$.{name}," for name in comma_lists(tables.grammar)], 4))
    tokens = [
        f"    {'_' if name == 'float' else ''}{name}: _ => token(/{pattern}/),"
        for name, pattern in TREE_TOKENS.items()
    ]
    tokens += ['    float: $ => choice($._float, seq($.integer, token.immediate("."))),']
    return f"""// {HEAD}
module.exports = grammar({{
  name: "tile",
  word: $ => $.identifier,
  extras: $ => [/\\s/, $.comment],
  inline: $ => [
{lists}
  ],
  rules: {{
""" + "\n".join(rules + tokens) + "\n  },\n});\n"


def any_of(words):
    return "^(" + "|".join(sorted(words)) + ")$"


def highlights_scm(tables):
    def quoted(words):
        return "\n".join(filled([json.dumps(word) for word in words], 2))

    signs = [text for text in tables.operators if text not in "()[]{},;."]
    return f"""; {HEAD}
(comment) @comment
(string) @string
(integer) @number
(float) @number.float
[
{quoted(tables.literals)}
] @constant.builtin
[
{quoted(tables.keywords)}
] @keyword
[
{quoted(signs)}
] @operator
["(" ")" "[" "]" "{{" "}}"] @punctuation.bracket
["," ";" "."] @punctuation.delimiter
(identifier) @variable
(kernel . "kernel" (identifier) @function)
(fn . "fn" (identifier) @function)
(clause . (identifier) @attribute)
(loop_hint . (identifier) @attribute)
(call function: (identifier) @function.call)
((call function: (identifier) @function.builtin)
  (#match? @function.builtin "{any_of(tables.functions)}"))
((identifier) @type.builtin
  (#match? @type.builtin "{any_of(tables.types + tables.kinds)}"))
((identifier) @constant.builtin
  (#match? @constant.builtin "{any_of(tables.constants)}"))
"""


# --- Vim ------------------------------------------------------------------------------------------------

VIM_MATCHES = r"""
" Names that mean something at some places only.
syn match tileKind /\v(<const\s+)@<=(@KINDS@)>/
syn match tileFunction /\v<(@FUNCTIONS@)>\ze\s*\(/
syn match tileOption /\v<(@OPTIONS@)>\ze\s*(\=[^=]|in\s*\{)/
syn match tileClause /\v<(@CLAUSES@)>\ze\s*(\(|\=[^=])/
syn match tileName /\v(<(kernel|fn|tune|instantiate)\s+)@<=\h\w*/
syn match tileOperator /\v[-+*\/%<>=!~&|^?:]|\.\./
syn match tileNumber /\v<\d[0-9_]*(\.\d[0-9_]*|\.\.@!)?([eE][-+]?\d+)?/
syn match tileNumber /\v\.\d[0-9_]*([eE][-+]?\d+)?/
syn match tileNumber /\v<0[xX][0-9a-fA-F_]+|<0[bB][01_]+/
syn region tileString start=/"/ skip=/\\./ end=/"/ oneline contains=tileEscape
syn match tileEscape /\v\\[nt"\\]/ contained
syn match tileComment /\v\/\/.*/ contains=@Spell
syn region tileComment start=/\/\*/ end=/\*\// contains=@Spell
hi def link tileKeyword Keyword
hi def link tileBoolean Boolean
hi def link tileConstant Constant
hi def link tileType Type
hi def link tileKind Type
hi def link tileFunction Function
hi def link tileOption Identifier
hi def link tileClause PreProc
hi def link tileName Function
hi def link tileNumber Number
hi def link tileOperator Operator
hi def link tileString String
hi def link tileEscape SpecialChar
hi def link tileComment Comment
let b:current_syntax = "tile"
"""


def options(tables):
    return sorted(set(tables.hints + tables.options))


def vim_syntax(tables):
    lines = [f'" {HEAD}', 'if exists("b:current_syntax")', "  finish", "endif"]
    for group, words in (
        ("Keyword", tables.keywords),
        ("Boolean", tables.literals),
        ("Constant", tables.constants),
        ("Type", tables.types),
    ):
        lines += [f"syn keyword tile{group} {line}" for line in filled(words, 0)]
    text = VIM_MATCHES
    for name, words in (
        ("KINDS", tables.kinds),
        ("FUNCTIONS", tables.functions),
        ("OPTIONS", options(tables)),
        ("CLAUSES", tables.clauses),
    ):
        text = text.replace(f"@{name}@", "|".join(words))
    return "\n".join(lines) + text


VIM_DETECT = f'" {HEAD}\nau BufRead,BufNewFile *.tile setfiletype tile\n'

VIM_PLUGIN = f"""" {HEAD}
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1
setlocal expandtab shiftwidth=4 softtabstop=4 textwidth=110 cindent
setlocal comments=s1:/*,mb:*,ex:*/,:// commentstring=//\\ %s suffixesadd=.tile
setlocal formatprg=tilec\\ fmt\\ -
let b:undo_ftplugin = "setlocal et< sw< sts< tw< cin< com< cms< sua< fp<"
"""


# --- TextMate and VS Code -------------------------------------------------------------------------------


def word(words, more=""):
    return r"\b(?:" + "|".join(words) + r")\b" + more


def textmate(tables):
    control = [text for text in tables.keywords if text in ("for", "while", "if", "else", "return", "import")]
    storage = [text for text in tables.keywords if text not in control]
    signs = sorted(
        (text for text in tables.operators if text not in "()[]{},;."), key=lambda text: (-len(text), text)
    )
    number = r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*(?:\.[0-9][0-9_]*|\.(?!\.))?(?:[eE][-+]?[0-9]+)?"
    patterns = [
        {"name": "comment.line.double-slash.tile", "match": "//.*$"},
        {"name": "comment.block.tile", "begin": r"/\*", "end": r"\*/"},
        {
            "name": "string.quoted.double.tile",
            "begin": '"',
            "end": '"|$',
            "patterns": [{"name": "constant.character.escape.tile", "match": r'\\[nt"\\]'}],
        },
        {
            "name": "constant.numeric.tile",
            "match": r"(?<![A-Za-z0-9_])(?:" + number + r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)",
        },
        {
            "match": r"\b(kernel|fn|tune|instantiate)\s+([A-Za-z_][A-Za-z0-9_]*)",
            "captures": {"1": {"name": "storage.type.tile"}, "2": {"name": "entity.name.function.tile"}},
        },
        {
            "match": r"\b(const)\s+(" + "|".join(tables.kinds) + r")\b",
            "captures": {"1": {"name": "storage.type.tile"}, "2": {"name": "support.type.tile"}},
        },
        {"name": "keyword.control.tile", "match": word(control)},
        {"name": "storage.type.tile", "match": word(storage)},
        {"name": "constant.language.tile", "match": word(tables.literals + tables.constants)},
        {"name": "support.type.tile", "match": word(tables.types)},
        {"name": "variable.parameter.tile", "match": word(options(tables), r"(?=\s*(?:=[^=]|in\s*\{))")},
        {"name": "keyword.other.clause.tile", "match": word(tables.clauses, r"(?=\s*(?:\(|=[^=]))")},
        {"name": "support.function.tile", "match": word(tables.functions, r"(?=\s*\()")},
        {"name": "entity.name.function.tile", "match": r"\b[A-Za-z_][A-Za-z0-9_]*(?=\s*\()"},
        {"name": "variable.other.tile", "match": r"\b[A-Za-z_][A-Za-z0-9_]*"},
        {"name": "keyword.operator.tile", "match": "|".join(re.escape(text) for text in signs)},
    ]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Tile",
        "comment": HEAD,
        "scopeName": "source.tile",
        "fileTypes": ["tile"],
        "patterns": patterns,
    }


def vscode_package():
    return {
        "name": "tile",
        "displayName": "Tile",
        "description": "Kernels of tilec. " + HEAD,
        "version": "0.2.0",
        "publisher": "tilec",
        "license": "SEE LICENSE IN ../../LICENSE",
        "engines": {"vscode": "^1.60.0"},
        "categories": ["Programming Languages"],
        "contributes": {
            "languages": [
                {
                    "id": "tile",
                    "aliases": ["Tile"],
                    "extensions": [".tile"],
                    "configuration": "./language-configuration.json",
                }
            ],
            "grammars": [
                {"language": "tile", "scopeName": "source.tile", "path": "./syntaxes/tile.tmLanguage.json"}
            ],
        },
    }


def vscode_configuration():
    pairs = [["{", "}"], ["[", "]"], ["(", ")"]]
    closing = pairs + [['"', '"']]
    return {
        "comments": {"lineComment": "//", "blockComment": ["/*", "*/"]},
        "brackets": pairs,
        "autoClosingPairs": [{"open": a, "close": b, "notIn": ["string", "comment"]} for a, b in closing],
        "surroundingPairs": closing,
        "wordPattern": "[A-Za-z_][A-Za-z0-9_]*",
        "indentationRules": {"increaseIndentPattern": r"^.*\{[^}\"]*$", "decreaseIndentPattern": r"^\s*\}"},
    }


# --- files ----------------------------------------------------------------------------------------------


def files(tables):
    as_json = lambda value: json.dumps(value, indent=2) + "\n"
    return {
        "vim/syntax/tile.vim": vim_syntax(tables),
        "vim/ftdetect/tile.vim": VIM_DETECT,
        "vim/ftplugin/tile.vim": VIM_PLUGIN,
        "vscode/package.json": as_json(vscode_package()),
        "vscode/language-configuration.json": as_json(vscode_configuration()),
        "vscode/syntaxes/tile.tmLanguage.json": as_json(textmate(tables)),
        "tree-sitter-tile/grammar.js": grammar_js(tables),
        "tree-sitter-tile/queries/highlights.scm": highlights_scm(tables),
    }


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__)
    root, differing = sys.argv[1], 0
    for path, text in files(Tables(root)).items():
        name = os.path.join(root, "editors", path)
        if len(sys.argv) == 3:
            same = os.path.exists(name) and read(root, os.path.join("editors", path)) == text
            if not same:
                print(f"editors/{path} is not what the tables say: python3 tools/syntax.py .")
            differing += not same
            continue
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
