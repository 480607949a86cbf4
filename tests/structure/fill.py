#!/usr/bin/env python3
"""fill.py FILE...: fills prose of Markdown, and comments of .tile files, that have lines over 110 columns.

A paragraph, a list item or a comment all of whose lines fit stays as it is, and so do blocks of code, tables
and headings. Words do not change. The test structure.rules counts the lines of prose that do not fit.
"""
import re
import sys
import textwrap

WIDTH = 110
OTHER = re.compile(r"\s*(\||#|<|```)")                  # tables, headings, HTML, fences
ITEM = re.compile(r"(\s*)([-*+]|\d+\.)(\s+)")
UNBROKEN = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)")     # code and links stay on one line


def filled(lines, first, rest):
    text = UNBROKEN.sub(lambda m: m.group(0).replace(" ", "\0"), " ".join(lines))
    out = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                        break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in out]


def fits(lines):
    return all(len(line) <= WIDTH for line in lines)


def markdown(lines):
    out, i, code = [], 0, False
    while i < len(lines):
        line, end = lines[i], i + 1
        if line.lstrip().startswith("```"):
            code = not code
        if not code and line.strip() and not OTHER.match(line):
            while end < len(lines) and lines[end].strip() and not OTHER.match(lines[end]) \
                    and not ITEM.match(lines[end]):
                end += 1
        part = lines[i:end]
        if code or OTHER.match(line) or fits(part):
            out += part
        else:
            first, item = re.match(r"\s*", line).group(0), ITEM.match(line)
            rest = re.match(r"\s*", part[1]).group(0) if len(part) > 1 else \
                " " * len(item.group(0)) if item else first
            out += filled([p.strip() for p in part], first, rest)
        i = end
    return out


def comments(lines):
    """Lines that hold a comment alone, of the same indentation; those with columns of blanks are left."""
    out, i = [], 0
    while i < len(lines):
        m, end = re.match(r"( *// *)(\S.*)", lines[i]), i + 1
        if m and not re.search(r"\S  +\S", m.group(2)):
            same = re.compile(re.escape(m.group(1)) + r"(\S.*)")
            while end < len(lines) and same.fullmatch(lines[end]) and not re.search(r"\S  +\S", lines[end]):
                end += 1
            part = lines[i:end]
            out += part if fits(part) else filled([p[len(m.group(1)):] for p in part], m.group(1), m.group(1))
        else:
            out.append(lines[i])
        i = end
    return out


for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as f:
        before = f.read()
    after = "\n".join((markdown if path.endswith(".md") else comments)(before.split("\n")))
    if after != before:
        with open(path, "w", encoding="utf-8") as f:
            f.write(after)
