"""Test that errors say where, and survive the way from a worker."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from datafeed import errors
from datafeed.errors import (
    BadItem,
    ConfigError,
    CorruptFrame,
    DatafeedError,
    MissingExtra,
    OutputFull,
    RecordTooLarge,
    SchemaError,
    SourceNotFound,
    TruncatedShard,
)

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DatafeedError)]
EXAMPLES = [
    (ConfigError("no such level"), "no such level"),
    (MissingExtra("pyarrow", "parquet", "to read parquet"), "pyarrow is needed to read parquet: pip install .*parquet"),
    (OutputFull(28, "no room", "/out/a"), r"no room: '/out/a'"),
    (SourceNotFound("no file 'a'"), "^no file 'a'$"),
    (BadItem("a.csv:17", "two cells", b"x,y"), "^a.csv:17: two cells$"),
    (SchemaError("expected 3 values", 4, "x"), "^feature 'x': expected 3 values$"),
    (SchemaError("no Example", 4), "^no Example$"),
    (RecordTooLarge("too large", 2, "x"), "^feature 'x': too large$"),
    (CorruptFrame("damaged", shard="s", block=1, record=2, offset=3), "^s, block 1, record 2, byte 3: damaged$"),
    (TruncatedShard("cut", offset=0), "^byte 0: cut$"),
    (CorruptFrame("damaged"), "^damaged$"),
]


@pytest.mark.parametrize(("error", "text"), EXAMPLES)
def test_error_comes_back_whole_from_a_pickle(error: DatafeedError, text: str) -> None:
    """Workers in other processes raise them: class, text and fields arrive."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own)
    assert type(again) is type(error)
    assert re.search(text, str(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_corrupt_data_escapes_a_name_that_a_terminal_would_obey() -> None:
    """Names of shards come from untrusted files."""
    assert "\x1b" not in str(CorruptFrame("damaged", shard="a\x1b[2J"))


def test_corrupt_data_names_the_dataset_once_it_is_known() -> None:
    """Before the shard; across processes, too."""
    error = CorruptFrame("damaged", shard="s", block=1)
    error.dataset = "s3://bucket/data"
    assert str(pickle.loads(pickle.dumps(error))) == "s3://bucket/data/s, block 1: damaged"  # noqa: S301  (our own)
    error.shard = ""
    assert str(error) == "s3://bucket/data, block 1: damaged"


def test_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    """Each class stands there once, below its base, with the builtin that it also is."""
    assert errors.__doc__ is not None
    path: list[str] = []
    found: dict[str, tuple[str, str]] = {}
    for indent, name, builtin in re.findall(r"^    ([│├└─ ]*)(\w+)(?: \((\w+)\))?", errors.__doc__, re.MULTILINE):
        depth = len(indent) // 4
        path[depth:] = [name]
        found[name] = (path[depth - 1] if depth else "Exception", builtin)
    assert set(found) == {kind.__name__ for kind in ALL}
    for kind in ALL:
        base, builtin = found[kind.__name__]
        assert kind.__bases__[0].__name__ == base
        assert [other.__name__ for other in kind.__bases__[1:]] == ([builtin] if builtin else [])
