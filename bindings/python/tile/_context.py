"""Contexts: one device each, its options, and what the compiler says."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading

from . import _lib
from ._errors import TYPE_CHECKING, Diagnostic, Error, Warning, error_of

if TYPE_CHECKING:
    from typing import Any


def _text(raw: bytes | None) -> str:
    return raw.decode("utf-8", "replace") if raw else ""


class _Said(threading.local):
    """What the compiler said during this thread's call, until _check takes it."""

    def __init__(self) -> None:
        self.messages: list[Diagnostic] = []

    def take(self) -> list[Diagnostic]:
        taken, self.messages = self.messages, []
        return taken


class Context:
    """One device: its driver, the disk cache and the options of compilation.

    target: "cpu", "cuda", "hip", or a full name such as "cuda:sm_80"; None takes the first that answers.
    device: the number among the driver's devices. checked: compile checks in (asserts, ranges, NaN). pinned:
    the same launch takes the same configuration whatever ran before. print_output: kernels print. cache:
    False switches the disk cache off. threads: of a launch on the CPU, 0 for all. workspace_limit: bytes of
    workspaces that are kept for launches on CUDA; 0 for 256 MiB, -1 for none. Raises tile.Error if there is
    no such device.
    """

    def __init__(
        self,
        target: str | None = None,
        device: int = 0,
        *,
        checked: bool = False,
        pinned: bool = False,
        as_declared: bool = False,
        early_start: bool = False,
        debug_info: bool = False,
        print_output: bool = False,
        cache: bool = True,
        cache_directory: str | os.PathLike | None = None,
        opt_level: int = 0,
        threads: int = 0,
        workspace_limit: int = 0,
    ):
        lib = self._lib = _lib.library()
        self._pointer = ctypes.c_void_p()
        self._said = _Said()
        self._elsewhere: list[Diagnostic] = []  # said in threads of libtile, which `prepare` starts
        self._preparing = threading.Lock()
        self._callback = _lib.DiagnosticFn(self._on_diagnostic)
        flags = (
            _lib.CHECKED * checked
            | _lib.NO_CACHE * (not cache)
            | _lib.PINNED * pinned
            | _lib.AS_DECLARED * as_declared
            | _lib.EARLY_START * early_start
            | _lib.DEBUG_INFO * debug_info
            | _lib.PRINT * print_output
        )
        desc = _lib.ContextDesc(
            struct_size=ctypes.sizeof(_lib.ContextDesc),
            device=device,
            flags=flags,
            target=target.encode() if target else None,
            on_diagnostic=self._callback,
            cache_directory=os.fsencode(cache_directory) if cache_directory else None,
            opt_level=opt_level,
            threads=threads,
            workspace_limit=workspace_limit,
        )
        why = ctypes.create_string_buffer(2000)
        status = lib.tile_context_create_error(desc, self._pointer, why, len(why))
        if status:
            raise error_of(_text(lib.tile_status_name(status)), _text(why.value), ())
        info = _lib.DeviceInfo(struct_size=ctypes.sizeof(_lib.DeviceInfo))
        self._check(lib.tile_context_device(self._pointer, info))
        self.name, self.target = _text(info.name), _text(info.target)
        self._device = (info.device.device_type, info.device.device_id)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self._lib.tile_context_destroy(self._pointer)

    def __repr__(self) -> str:
        return f"<tile.Context {self.target}: {self.name}>"

    def _on_diagnostic(self, _user: Any, pointer: Any) -> None:
        d = pointer.contents
        severity = _lib.SEVERITIES[d.severity] if d.severity < len(_lib.SEVERITIES) else "note"
        if severity == "print":
            sys.stdout.write(_text(d.message) + "\n")
            return
        here = threading.get_ident()
        ours = any(t.ident == here for t in threading.enumerate())
        (self._said.messages if ours else self._elsewhere).append(
            Diagnostic(
                severity,
                _text(d.file),
                d.line,
                d.column,
                _text(d.message),
                _text(d.rendered),
                _text(d.kernel),
            )
        )

    def _check(self, status: int, elsewhere: list[Diagnostic] | None = None) -> None:
        """Raises what the status and the diagnostics of this thread's call say; warns of warnings."""
        if not status and not self._said.messages and not elsewhere:
            return
        said = [*self._said.take(), *(elsewhere or ())]
        if status:
            n = self._lib.tile_context_error(self._pointer, None, 0)
            text = ctypes.create_string_buffer(n + 1)
            self._lib.tile_context_error(self._pointer, text, n + 1)
            raise error_of(_text(self._lib.tile_status_name(status)), _text(text.value), said)
        import warnings

        for i, d in enumerate(said):
            if d.severity == "warning":
                notes = itertools.takewhile(lambda e: e.severity == "note", said[i + 1 :])
                warnings.warn(
                    "".join((d.rendered, *(n.rendered for n in notes))).rstrip(), Warning, stacklevel=4
                )

    def seal(self, sealed: bool = True) -> None:
        """Forbids compilation: a call that would have to compile raises tile.SealedError. False allows it."""
        self._check(self._lib.tile_context_seal(self._pointer, sealed))

    def missing(self) -> list[str]:
        """The variants that the sealed context refused, in the order in which they were asked for."""
        n = self._lib.tile_context_missing(self._pointer, None, 0)
        text = ctypes.create_string_buffer(n + 1)
        self._lib.tile_context_missing(self._pointer, text, n + 1)
        return _text(text.value).splitlines()

    def synchronize(self) -> None:
        """Waits for all work of the device."""
        self._check(self._lib.tile_context_synchronize(self._pointer))


_contexts: dict[tuple, Context] = {}
_lock = threading.RLock()
_TARGETS = {1: "cpu", 2: "cuda", 10: "hip"}


def context(target: str = "cpu", device: int = 0) -> Context:
    """The context that kernels of this process share for a device; opened at the first call."""
    with _lock:
        found = _contexts.get((target, device))
        if found is None:
            found = _contexts[target, device] = Context(target, device)
        return found


def first_context() -> Context:
    """The CPU's context; where libtile has no backend for it, that of the first device that answers."""
    try:
        return context("cpu")
    except Error:
        with _lock:
            ctx = Context()
            return _contexts.setdefault((_TARGETS[ctx._device[0]], ctx._device[1]), ctx)
