"""Find, name and tell apart people's functions."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType

from datafeed.errors import ConfigError

Fn = Callable[..., object]
"""Takes an input or a sample, returns a sample, several (a list or any other iterable), or None for none."""

_PLAIN = (int, float, str, bytes, bool, type(None))
_CALL = "__call__"


def load_function(name: str) -> Fn:
    """Return the function that "module:function" names; the current folder counts, as for `python -m`.

    Raises:
        ConfigError: There is no such module or function.
    """
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise ConfigError(f"fn: expected module:function, found {name!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"fn: cannot import {name!r}: {exc}") from exc
    except (Exception, SystemExit) as exc:  # a person's module may raise anything
        raise ConfigError(f"fn: cannot import {name!r}: it raised {said(exc)}") from exc
    if not callable(found):
        raise ConfigError(f"fn: {name!r} is a {type(found).__name__} and no function")
    return found


def name_of(fn: Fn) -> str:
    """Return what a person calls a function."""
    if isinstance(fn, functools.partial):
        return name_of(fn.func)
    kind = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{kind.__module__}:{kind.__qualname__}"


def said(error: BaseException) -> str:
    """Return the type and the text of an error that a person's code raised, the text where it can be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  (its __str__ is theirs, too)
        return type(error).__name__


def code_digest(fn: Fn) -> str:
    """Return a SHA-256 over a function's code and the plain values that it is bound to.

    What it calls elsewhere does not count.
    """
    digest = hashlib.sha256()
    for text in _facts(fn):
        digest.update(text.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()


def _facts(fn: object) -> Iterator[str]:
    if isinstance(fn, functools.partial):
        yield from _facts(fn.func)
        yield from map(_plain, (*fn.args, *sorted(fn.keywords.items())))
        return
    code = getattr(fn, "__code__", None) or getattr(getattr(type(fn), _CALL, None), "__code__", None)
    yield name_of(fn) if callable(fn) else ""
    if isinstance(code, CodeType):
        yield from _code(code)
    for value in getattr(fn, "__defaults__", None) or ():
        yield _plain(value)
    for cell in getattr(fn, "__closure__", None) or ():
        yield _plain(cell.cell_contents)
    for name, value in sorted(vars(fn).items()) if hasattr(fn, "__dict__") else ():
        yield f"{name}={_plain(value)}"


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        yield from _code(constant) if isinstance(constant, CodeType) else (_plain(constant),)


def _plain(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, (set, frozenset)):  # their order differs from process to process
        return f"{{{', '.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, dict):
        return _plain(list(value.items()))
    return repr(value) if isinstance(value, _PLAIN) else type(value).__name__
