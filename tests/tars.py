"""Write tars member by member, and read them as a source."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Literal

import numpy as np
from source_contract import Row, check_form, rows_of

from datafeed.converters.options import SourceOptions
from datafeed.converters.webdataset import WebDataset
from datafeed.errors import BadItem

PLAIN = SourceOptions()
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def put(path: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    """Write a tar, member by member."""
    with tarfile.open(path, "w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str) -> tarfile.TarInfo:
    """Return a symbolic link to a file of the system."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


def array(value: object, dtype: str = "float64", order: Literal["C", "F"] = "C") -> bytes:
    """Return an array as numpy.save writes it."""
    file = io.BytesIO()
    np.save(file, np.asarray(value, dtype, order))
    return file.getvalue()


def read(path: Path | str, asked: SourceOptions = PLAIN) -> tuple[list[Row], list[tuple[str, str]]]:
    """Read all samples, checking the form of every column, with where and why of the bad items."""
    opened, bad = WebDataset(str(path), asked), list[BadItem]()
    schema, rows = opened.schema(), list[Row]()
    for unit in opened.units():
        for chunk in opened.read(unit, bad.append):
            for feature in schema:
                check_form(feature, chunk.columns[feature.name], chunk.rows)
            rows += rows_of(schema.features, chunk)
    return rows, [(item.where, item.reason) for item in bad]


def sealed(block: bytes | bytearray) -> bytes:
    """Return a header with the checksum that it should have."""
    total = sum(block[:148]) + sum(block[156:512]) + 8 * ord(" ")
    return bytes(block[:148]) + b"%06o\0 " % total + bytes(block[156:])
