"""Write data sets with the libraries that people move away from, in a child process that has imported torch."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from peer import Peer

# The packages' own __init__ import transformers, torchvision and clouds' clients, none of which a writer uses:
# bare packages of their names let its module alone be imported.
_MDS = """
import importlib.util, json, pathlib, pickle, sys, types
if "streaming" not in sys.modules:
    (place,) = importlib.util.find_spec("streaming").submodule_search_locations
    for name in ("streaming", "streaming.base"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [place + "/base" * name.endswith("base")]
from streaming.base.format.mds.writer import MDSWriter
out, columns, options, samples = sys.argv[1:]
with MDSWriter(out=out, columns=json.loads(columns), **json.loads(options)) as writer:
    for sample in pickle.loads(pathlib.Path(samples).read_bytes()):
        writer.write(sample)
"""
_LITDATA = """
import json, pathlib, pickle, sys, torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
out, options, tokens, samples = sys.argv[1:]
loader = TokensLoader() if tokens == "True" else None
writer = BinaryWriter(out, item_loader=loader, **json.loads(options))
for number, sample in enumerate(pickle.loads(pathlib.Path(samples).read_bytes())):
    writer[number] = sample
writer.done()
writer.merge()
"""

Samples = Sequence[object]


def write_mds(
    peer: Peer, out: Path, columns: Mapping[str, str], samples: Samples, options: Mapping[str, object] | None = None
) -> None:
    """Write MDS shards with MosaicML Streaming's writer; values may be Python's and NumPy's."""
    with tempfile.NamedTemporaryFile() as file:
        pickle.dump(list(samples), file)
        file.flush()
        peer.run(_MDS, str(out), json.dumps(columns), json.dumps(options or {}), file.name)


def write_litdata(
    peer: Peer, out: Path, samples: Samples, options: Mapping[str, object] | None = None, *, tokens: bool = False
) -> None:
    """Write chunks with LitData's writer; values may be Python's, NumPy's and torch's."""
    with tempfile.NamedTemporaryFile() as file:
        pickle.dump(list(samples), file)
        file.flush()
        peer.run(_LITDATA, str(out), json.dumps({"chunk_size": 4, **(options or {})}), str(tokens), file.name)


def edit_shard(folder: Path, change: Mapping[str, object], number: int = 0) -> None:
    """Change what an index of MDS shards says of one."""
    index = json.loads((folder / "index.json").read_text())
    index["shards"][number].update(change)
    (folder / "index.json").write_text(json.dumps(index))


def set_u32(path: Path, place: int, value: int) -> None:
    """Set a number of four bytes in a file."""
    data = bytearray(path.read_bytes())
    data[place : place + 4] = value.to_bytes(4, "little")
    path.write_bytes(data)
