"""Test the export to MDS, read by MosaicML Streaming's own reader and by our own source."""

from __future__ import annotations

import json
from pathlib import Path

import forms
import pytest
from peer import Peer
from round_trip import rows_of_dataset, rows_of_source

from datafeed.converters import export_mds
from datafeed.converters.export import ExportOptions, export
from datafeed.errors import SchemaError
from datafeed.schema import NUMERIC, Schema

NAMES = [
    *("id", "blob", "text", "photo", "listed"),
    *(f"{dtype}.{form}" for dtype in NUMERIC if dtype != "bool" for form in ("scalar", "array", "ragged")),
]
SCHEMA = Schema([forms.SCHEMA[name] for name in NAMES])
_READ = """
import importlib.util, json, sys, types
if "streaming" not in sys.modules:
    (place,) = importlib.util.find_spec("streaming").submodule_search_locations
    for name in ("streaming", "streaming.base"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [place + "/base" * name.endswith("base")]
from streaming.base.format.mds.reader import MDSReader
folder = sys.argv[1]
rows = []
for entry in json.load(open(folder + "/index.json"))["shards"]:
    reader = MDSReader.from_json(folder, None, entry)
    for number in range(entry["samples"]):
        found = reader[number]
        plain = [found["id"].item(), found["text"], found["blob"].hex()]
        rows.append([*plain, found["photo"].size[1], found["int8.array"].tolist()])
print(json.dumps(rows))
"""


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an export of several files a shard."""
    monkeypatch.setattr(export_mds, "SIZE_LIMIT", 20_000)
    export(forms.write(tmp_path / "in", SCHEMA, 60), tmp_path / "out", "mds")
    return tmp_path / "out"


def test_every_form_of_feature_comes_back(exported: Path, tmp_path: Path) -> None:
    """Values, shapes and types are those of the dataset; the index gives sizes and digests that agree."""
    assert rows_of_source(exported) == rows_of_dataset(str(tmp_path / "in"))
    entries = json.loads((exported / "index.json").read_text())["shards"]
    assert len(entries) > 3
    assert all(entry["raw_data"]["bytes"] <= 20_000 for entry in entries)


@pytest.mark.peers
def test_streaming_reads_the_export(exported: Path, shard_writer: Peer) -> None:
    """The library's own reader finds every row, value for value."""
    rows = json.loads(shard_writer.run(_READ, str(exported)))
    expected = [forms.sample(SCHEMA, number) for number in range(60)]
    assert rows == [
        [row["id"], row["text"], row["blob"].hex(), 12 + row["id"] % 3, row["int8.array"].tolist()] for row in expected
    ]


@pytest.mark.parametrize(("name", "what"), [("words", "lists of utf8"), ("maybe", "may be missing")])
def test_what_mds_lacks_is_refused_by_name(tmp_path: Path, name: str, what: str) -> None:
    """Before anything is written, with the alternatives."""
    url = forms.write(tmp_path / "in", forms.SCHEMA, 9)
    with pytest.raises(SchemaError, match=rf"'{name}': mds cannot hold .*{what}.*--columns id, or export --to parquet"):
        export(url, tmp_path / "out", "mds", ExportOptions(columns=("id", name)))
    assert not (tmp_path / "out").exists()
