"""Write text so that a terminal shows what it is, and never obeys it."""

from __future__ import annotations

from collections.abc import Sequence


def safe(text: str) -> str:
    r"""Escape what is not printable: control characters, bytes that are no UTF-8, marks that turn the direction.

    Args:
        text: Any text; bytes that are no UTF-8 stand as surrogate escapes.

    Returns:
        The text on one line, with such characters as \\n, \\x1b, \\xff or \\u202e.
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows of cells in columns, two spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
