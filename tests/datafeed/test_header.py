"""The header that every shard shares."""

from __future__ import annotations

import math

import pytest

from datafeed.errors import CorruptIndex
from datafeed.header import DatasetHeader, Fields, canonical, make_header
from datafeed.schema import Schema, stored

_HEADER = make_header(Schema([stored("x", "int64")]), block_size=10, level=-3, provenance={"b": 1, "a": "é"})


def test_canonical_gives_one_form() -> None:
    """Sorted, without spaces, ASCII; NaN has none."""
    assert canonical({"b": [1, None, True], "a": "é\n"}) == b'{"a":"\\u00e9\\n","b":[1,null,true]}'
    with pytest.raises(ValueError, match="Out of range"):
        canonical(math.nan)


def test_header_round_trips() -> None:
    """Negative levels and nested provenance included."""
    assert DatasetHeader.from_json(_HEADER.to_json()) == _HEADER


def test_dataset_id_is_the_documented_hash() -> None:
    """A second writer comes to the same id."""
    assert _HEADER.dataset_id == "f8510b88508f98a62411c2eb67ad6a8e"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"block_size": 0}, "sizes of at least 1"),
        ({"extent_size": -1}, "'extent_size', found -1"),
        ({"level": "3"}, "'level', found '3'"),
        ({"provenance": []}, "an object as 'provenance'"),
        ({"schema": [{"name": "x"}]}, "a schema"),
        ({"schema": [{"name": "x", "kind": "int64", "dtype": "float32"}]}, "cannot hold"),
        ({"schema": None}, "a schema"),
        ({"dataset_id": "xyz"}, "32 hexadecimal digits"),
    ],
)
def test_wrong_field_is_named(change: dict[str, object], reason: str) -> None:
    """With the file that holds it."""
    with pytest.raises(CorruptIndex, match=f"^file: .*{reason}"):
        DatasetHeader.from_json({**_HEADER.to_json(), **change}, name="file")


def test_fields_within_fields_name_their_file() -> None:
    """A fault deep in a file says which file."""
    with pytest.raises(CorruptIndex, match=r"^a\.json: expected an integer of at least 0 as 'task', found 'x'"):
        Fields({"begin": {"task": "x"}}, "a.json").within("begin").integer("task")
