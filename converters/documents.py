"""Read the documents of text, JSON lines and parquet files.

In a text file each line that is not blank is a document; elsewhere it is the value of one column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

from datafeed.converters import jsonl, parquet
from datafeed.converters.files import Files
from datafeed.converters.jsonl import samples_of
from datafeed.converters.lines import line_units, lines_of
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet import Parquet
from datafeed.converters.source import OnBad, Stamp, Unit
from datafeed.converters.unpack import PACKED_ERRORS, unpacked
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceError
from datafeed.sizes import some

Form = Literal["txt", "jsonl", "parquet"]

_SUFFIXES: dict[Form, tuple[str, ...]] = {
    "txt": (".txt", ".txt.gz", ".txt.zst"),
    "jsonl": jsonl.SUFFIXES,
    "parquet": parquet.SUFFIXES,
}
SUFFIXES = tuple(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
_HEAD_NBYTES = 4096


class Part(NamedTuple):
    """Name consecutive documents of a file.

    Attributes:
        form: How the file is read.
        unit: The part, as the reader of that form names it.
    """

    form: Form
    unit: Unit


class Document(NamedTuple):
    """Hold a document.

    Attributes:
        where: The file, with line or row.
        text: What it says; it may hold lone surrogates.
    """

    where: str
    text: str


def parts_of(asked: SourceOptions, file: Stamp) -> Iterator[Part]:
    """Yield the parts of a file, in order; none of an empty one.

    Args:
        asked: How it is read.
        file: The file; its name tells its form, or its content where the name ends in no suffix known.

    Raises:
        SourceError: It cannot be looked at.
    """
    form = _form_of(asked.files, file)
    units = _row_groups(asked, file) if form == "parquet" else line_units(asked.files, file)
    for unit in units:
        yield Part(form, unit)


def _form_of(files: Files, file: Stamp) -> Form:
    name = file.path.lower()
    named = next((form for form, suffixes in _SUFFIXES.items() if name.endswith(suffixes)), None)
    if named is not None:
        return named
    try:
        with files.open(file.path, read_ahead=_HEAD_NBYTES) as raw, unpacked(raw) as plain:
            head = plain.read(_HEAD_NBYTES)
    except PACKED_ERRORS:
        return "txt"  # whose reader says what is wrong
    if head.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "txt"


def _row_groups(asked: SourceOptions, file: Stamp) -> Iterator[Unit]:
    """Yield a parquet file's row groups; one unit that says why where it cannot be read."""
    source = _parquet(asked, file)
    try:
        units = source.units()
    except EmptySource:
        return
    reason = "" if isinstance(units[0].detail, str) else _unfit(source)
    yield from [Unit(file.path, file.nbytes, (file,), reason)] if reason else units


def _parquet(asked: SourceOptions, file: Stamp) -> Parquet:
    return Parquet(file.path, replace(asked, columns=(asked.text,)))


def _unfit(source: Parquet) -> str:
    """Return why a file has no column of text; nothing where it has one."""
    name = source.asked.text
    try:
        schema = source.schema()
    except (SourceError, ConfigError) as exc:
        return f"{exc}: --text names the column of text"
    if name not in schema or schema[name].dtype != "utf8" or schema[name].shape:
        found = (
            f"{name!r} is {schema[name].dtype} {schema[name].shape or ''}".strip() if name in schema else "it lacks it"
        )
        return f"expected a column {name!r} of strings, found that {found}: --text names the column of text"
    return ""


def documents_of(asked: SourceOptions, part: Part, on_bad: OnBad) -> Iterator[Document]:
    """Yield the documents of a part.

    Args:
        asked: How it is read; `text` names the column.
        part: What `parts_of` made.
        on_bad: What to do with what is no document, or cannot be read.

    Raises:
        BadItem: Whatever `on_bad` raises.
    """
    read = {"txt": _from_lines, "jsonl": _from_objects, "parquet": _from_rows}[part.form]
    return read(asked, part.unit, on_bad)


def _from_lines(asked: SourceOptions, unit: Unit, on_bad: OnBad) -> Iterator[Document]:
    path = shown(unit.files[0].path)
    for line, data in lines_of(asked.files, unit, on_bad):
        if not data.strip():
            continue
        where = f"{path}:{line}"
        try:
            text = data.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as exc:
            on_bad(BadItem(where, f"expected text as UTF-8: {exc}", data))
            continue
        yield Document(where, text)


def _from_objects(asked: SourceOptions, unit: Unit, on_bad: OnBad) -> Iterator[Document]:
    path = shown(unit.files[0].path)
    for line, found in samples_of(asked.files, unit, on_bad):
        where = f"{path}:{line}"
        value = found.get(asked.text)
        if isinstance(value, str):
            yield Document(where, value)
        else:
            on_bad(BadItem(where, _no_text(asked.text, found), json.dumps(found).encode()))


def _no_text(name: str, found: Mapping[str, object]) -> str:
    value = found.get(name)
    what = (
        f"{value!r:.40}" if value is not None else "null" if name in found else f"none; there are {some(sorted(found))}"
    )
    return f"expected a string under {name!r}, found {what}: --text names the column of text"


def _from_rows(asked: SourceOptions, unit: Unit, on_bad: OnBad) -> Iterator[Document]:
    try:
        for chunk in _parquet(asked, unit.files[0]).read(unit, on_bad):
            values, offsets, _, present = chunk.columns[asked.text]
            assert offsets is not None
            data = values.tobytes()
            for row, (start, end) in enumerate(pairwise(offsets.tolist())):
                if present is None or present[row]:
                    yield Document(chunk.where(row), data[start:end].decode())
                else:
                    on_bad(BadItem(chunk.where(row), f"expected a string under {asked.text!r}, found null"))
    except BadItem as exc:  # a unit may hold parts of other files
        on_bad(exc)
