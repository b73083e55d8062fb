"""Test that every kind of source reads files of any name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tiny import example, framed

from datafeed.converters.detect import open_source
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem

NAMES = [
    b"235342 Track 2.0 (Clean Version)",
    b"22.05",
    b"a/22.0/1.1",
    b"train.v1/0001",
    b"two\nlines",
    b"bell\x07",
    b"no utf8 \xff",
    b"\xf0\x9f\xa6\x99",
    b"percent%20#1?*[x]",
    b"n" * 240,
]


def _parquet() -> bytes:
    out = pa.BufferOutputStream()
    parquet.write_table(pa.table({"x": [[1], [2, None]]}), out)
    return bytes(out.getvalue())


WRITERS: dict[str, Callable[[], bytes]] = {
    ".csv": lambda: b"x,y\n1,2\n1,2,3\n",
    ".jsonl": lambda: b'{"x": 1}\nbroken\n',
    ".parquet": _parquet,
    ".tfrecord": lambda: framed([example({"x": [1]})]) + b"cut",
}
"""Per suffix, a file of one good sample and a bad one."""


@pytest.mark.parametrize("suffix", WRITERS)
def test_f91_f56_any_name_is_read_and_shown_on_one_line(tmp_path: Path, suffix: str) -> None:
    """In a folder: dots, spaces, line ends, bytes that are no UTF-8; a message stays text that can be printed."""
    for name in NAMES:
        path = os.path.join(os.fsencode(tmp_path), name + suffix.encode())
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(WRITERS[suffix]())
    (tmp_path / f".hidden{suffix}").write_bytes(b"not to be read")
    source, bad = open_source(str(tmp_path), None, SourceOptions()), list[BadItem]()
    rows, places = 0, []
    for unit in source.units():
        for chunk in source.read(unit, bad.append):
            rows += chunk.rows
            places += [chunk.where(row) for row in range(chunk.rows)]
    assert (rows, len(bad)) == (len(NAMES), len(NAMES))
    for text in [*places, *(str(item) for item in bad), *source.notes()]:
        assert text.isprintable()
        assert text.encode()
    json.dumps(source.options())
