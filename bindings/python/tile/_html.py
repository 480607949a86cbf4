"""Modules and kernels in a notebook: tables and highlighted source, in one piece of HTML without scripts."""

from __future__ import annotations

from . import _lib
from ._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterable, Sequence

    from ._kernel import Kernel
    from ._module import Module

# Colors that can be read on a light and on a dark page.
_STYLES = {
    "keyword": "color:#a45ad0",
    "type": "color:#2a8f8f",
    "function": "color:#3f7fd0",
    "hint": "color:#3f7fd0",
    "comment": "color:#7f8c7f;font-style:italic",
    "text": "color:#b0682c",
    "number": "color:#b0682c",
}
_CELL = ' style="text-align:left;vertical-align:top;padding:2px 12px 2px 0"'
_words: dict[str, str] | None = None


def _word_kinds() -> dict[str, str]:
    """What each word of the language is, as the compiler's own tables say."""
    global _words
    if _words is None:
        found: dict[str, str] = {}
        for kind, name in ((3, "hint"), (2, "function"), (1, "type"), (0, "keyword")):
            for word in (_lib.library().tile_language_words(kind) or b"").decode().split():
                found[word] = name
        _words = found
    return _words


def _highlight(source: str) -> str:
    import re
    from html import escape

    token = re.compile(
        r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>\"[^\"\n]*\"?)"
        r"|(?P<number>\b\d[\w]*(?:\.\d\w*)?(?:(?<=[eE])[+-]\d+)?)|(?P<word>[A-Za-z_]\w*)",
        re.S,
    )
    kinds, out, at = _word_kinds(), [], 0
    for match in token.finditer(source):
        kind = match.lastgroup or ""
        if kind == "word":
            kind = kinds.get(match.group(), "")
            # A hint and a function may also be names of the program: only where they are used as such.
            after = source[match.end() :].lstrip(" ")[:1]
            if (kind == "function" and after != "(") or (kind == "hint" and after != "="):
                kind = ""
        out.append(escape(source[at : match.start()]))
        text = escape(match.group())
        out.append(f'<span style="{_STYLES[kind]}">{text}</span>' if kind in _STYLES else text)
        at = match.end()
    out.append(escape(source[at:]))
    return f'<pre style="line-height:1.35">{"".join(out)}</pre>'


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    from html import escape

    lines = ["".join(f"<td{_CELL}>{escape(str(cell))}</td>" for cell in row) for row in rows]
    if not lines:
        return ""
    top = "".join(f"<th{_CELL}>{escape(h)}</th>" for h in head)
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _block(source: str, head: str) -> str:
    """The statement that begins with `head` at the start of a line, up to its closing brace; "" if none."""
    import re

    start = re.search(head, source, re.M)
    if not start:
        return ""
    depth, at = 0, start.end()
    for at in range(start.start(), len(source)):
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        if depth == 0 and source[at] == "}":
            break
    return source[start.start() : at + 1]


def _launches(kernel: Kernel) -> list[tuple]:
    """The variants that the last calls took; each was compiled by its call."""
    import ctypes

    from ._context import _text

    latest: dict[tuple, tuple] = {}
    for facts, handle, arguments, n, _keep in list(kernel._seen):
        latest.pop(facts, None)
        latest[facts] = (handle, arguments, n)
    rows = []
    for facts, (handle, arguments, n) in latest.items():
        info = _lib.VariantInfo(struct_size=ctypes.sizeof(_lib.VariantInfo))
        ctx = handle.context
        if ctx._lib.tile_kernel_variant(handle.pointer, arguments, n, info):
            ctx._said.take()
            continue
        shapes = ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in facts)
        rows.append((shapes, _text(info.specialization), info.programs, info.threads, ctx.target))
    return rows


def kernel_html(kernel: Kernel) -> str:
    from html import escape

    tensors, consts = [], []
    for p in kernel.parameters:
        default = p.default if p.has_default else ""
        if p.kind in ("const", "type"):
            kind = "type" if p.kind == "type" else p.dtype
            consts.append((p.name, kind, default, kernel.bound.get(p.name, "")))
        else:
            dims = f"[{', '.join(p.dims)}]{'?' * p.optional}" if p.kind != "scalar" else ""
            tensors.append((p.name, p.kind, p.dtype + dims, default))
    others = [n for n in kernel.bound if n not in {p.name for p in kernel.parameters}]
    consts += [(n, "dimension or hint", "", kernel.bound[n]) for n in others]
    tune = _block(kernel.module.source, rf"^[ \t]*tune\s+{kernel.name}\b")
    launches = _launches(kernel)
    head = ("arguments", "chosen configuration", "programs", "threads", "target")
    return "".join(
        (
            f"<div><b>{escape(kernel.name)}</b>",
            _table(("parameter", "kind", "type", "default"), tensors),
            _table(("const", "type", "default", "bound to"), consts),
            f"<details><summary>tune space</summary>{_highlight(tune)}</details>" if tune else "",
            _table(head, launches),
            f"<details open><summary>source</summary>{_highlight(kernel.source.rstrip())}</details></div>",
        )
    )


def module_html(module: Module) -> str:
    from html import escape

    rows = [(name, module[name].__str__()) for name in module]
    return (
        f"<div><b>{escape(module.name)}</b>{_table(('kernel', 'signature'), rows)}"
        f"<details open><summary>source</summary>{_highlight(module.source.rstrip())}</details></div>"
    )
