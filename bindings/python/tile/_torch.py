"""Kernels as operators of torch.library. Schema and implementations follow from the parameters."""

from __future__ import annotations

import ast
from typing import Any, Mapping

import torch

from . import _arrays
from ._errors import ArgumentError

_libraries: list = []  # an operator lives as long as its library


def _scalar_type(kernel: Any, p: Any) -> str:
    name = _dtype(kernel, p, {})
    return "bool" if name == "bool" else "float" if name[0] in "fb" else "SymInt"


def _dtype(kernel: Any, p: Any, tensors: Mapping[str, Any]) -> str:
    """The element type of a parameter for these tensors."""
    types = {q.name: q for q in kernel.parameters if q.kind == "type"}
    if p.dtype not in types:
        return p.dtype
    if p.dtype in kernel.bound:
        return _arrays.dtype_name(kernel.bound[p.dtype])
    for q in kernel._given:
        if q.dtype == p.dtype and tensors.get(q.name) is not None:
            return _arrays.dtype_name(tensors[q.name].dtype)
    return types[p.dtype].default


def schema_of(kernel: Any) -> str:
    """`(Tensor X, Tensor(a!) L, float s=2.0) -> Tensor`. Defaults stand only where no argument without one
    follows."""
    arguments, letters = [], iter("abcdefghijklmnopqrstuvwxyz")
    trailing = len(kernel._given)
    while trailing and (kernel._given[trailing - 1].optional or kernel._given[trailing - 1].has_default):
        trailing -= 1
    for i, p in enumerate(kernel._given):
        default = ""
        if p.kind == "scalar":
            kind = _scalar_type(kernel, p)
            default = f"={p.default}" if p.has_default else ""
        else:
            kind = ("Tensor" if p.kind == "in" else f"Tensor({next(letters)}!)") + "?" * p.optional
            default = "=None" if p.optional else ""
        arguments.append(f"{kind} {p.name}{default if i >= trailing else ''}")
    n = len(kernel._outs)
    results = "Tensor" if n == 1 else f"({', '.join(['Tensor'] * n)})"
    return f"({', '.join(arguments)}) -> {results}"


_CALLS = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max, "index": lambda a: a}
_BINARY = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def extent(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an extent as written in the source. Works on numbers and on PyTorch's symbols."""

    def value(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            return _CALLS[node.func.id](*map(value, node.args))
        raise ArgumentError(f"the extent {text} cannot be computed from the shapes of the arguments")

    try:
        return value(ast.parse(text.replace("/", "//"), mode="eval").body)
    except SyntaxError:
        raise ArgumentError(
            f"the extent {text} cannot be computed from the shapes of the arguments"
        ) from None


def _names(kernel: Any, values: Mapping[str, Any]) -> dict:
    names = {p.name: p.default for p in kernel.parameters if p.kind == "const" and p.has_default}
    names.update((n, v) for n, v in kernel.bound.items() if isinstance(v, int))
    for p in kernel._given:
        a = values.get(p.name)
        if p.kind == "scalar":
            names[p.name] = p.default if a is None else a
        elif a is not None:
            names.update((d, n) for d, n in zip(p.dims, a.shape) if d.isidentifier() and d not in names)
    return names


def register(kernel: Any, name: str) -> Any:
    """Defines `name` ("namespace::operator") and returns the operator."""
    namespace, _, operator = name.partition("::")
    if not operator:
        raise ArgumentError(f'"namespace::operator" was expected, found {name!r}')
    given = [p.name for p in kernel._given]

    def run(*args: Any, **named: Any) -> Any:
        values = {**dict(zip(given, args)), **named}
        with torch.no_grad():  # below autograd: a registered formula has recorded the call
            return kernel(**{n: a for n, a in values.items() if a is not None})

    def fake(*args: Any, **named: Any) -> Any:
        values = {**dict(zip(given, args)), **named}
        names = _names(kernel, values)
        tensors = {n: a for n, a in values.items() if isinstance(a, torch.Tensor)}
        device = next(iter(tensors.values())).device
        outs = tuple(
            torch.empty(
                [extent(d, names) for d in p.dims],
                device=device,
                dtype=getattr(torch, _arrays._BY_TILE[_dtype(kernel, p, tensors)]),
            )
            for p in kernel._outs
        )
        return outs if len(outs) > 1 else outs[0] if outs else None

    library = torch.library.Library(namespace, "FRAGMENT")
    library.define(operator + schema_of(kernel), tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(operator, run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, fake, lib=library)
    _libraries.append(library)
    return getattr(getattr(torch.ops, namespace), operator)
