"""What can go wrong, as exceptions."""

from __future__ import annotations

TYPE_CHECKING = False  # checkers take it as true; the module typing takes longer to import than this package
if TYPE_CHECKING:
    from typing import Any, Sequence


class Record:
    """Fields by name, in the order of the annotations of the class; equal if all of them are."""

    def __init__(self, *values: Any):
        for name, value in zip(self.__annotations__, values):
            setattr(self, name, value)

    def _values(self) -> tuple:
        return tuple(getattr(self, name) for name in self.__annotations__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__annotations__)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]


class Diagnostic(Record):
    """One message of the compiler. `line` and `column` count from 1; they are 0 if it has no place."""

    severity: str
    file: str
    line: int
    column: int
    message: str
    rendered: str
    kernel: str


class Error(RuntimeError):
    """A call of libtile failed. Nothing was launched and nothing was created.

    status: the name of the status, such as "TILE_ERROR_SHAPE".
    diagnostics: what the compiler said, in order; empty if the call did not come so far.
    """

    def __init__(self, text: str, status: str = "", diagnostics: Sequence[Diagnostic] = ()):
        super().__init__(text)
        self.status = status
        self.diagnostics = list(diagnostics)


class CompileError(Error):
    """A source has errors, or a specialization of it does not compile."""


class ArgumentError(Error, ValueError):
    """An argument does not fit the kernel: its type, extents, device, alignment or name."""


class SealedError(Error):
    """The context is sealed, and the call would have to compile."""


class Warning(UserWarning):  # noqa: A001 (the name is qualified by the package: tile.Warning)
    """A warning of the compiler."""


_ARGUMENT = {"INVALID_ARGUMENT", "NOT_FOUND", "SHAPE", "DTYPE", "DEVICE", "ALIGNMENT", "OVERLAP", "GRID"}


def error_of(status: str, text: str, diagnostics: Sequence[Diagnostic]) -> Error:
    """The exception for a status: of the class that says what kind of failure it is."""
    kind = status.replace("TILE_ERROR_", "")
    if kind == "COMPILE":
        said = "".join(d.rendered for d in diagnostics if d.severity in ("error", "note"))
        return CompileError(said.rstrip() or text, status, diagnostics)
    if kind == "SEALED":
        return SealedError(text, status, diagnostics)
    return (ArgumentError if kind in _ARGUMENT else Error)(text, status, diagnostics)
