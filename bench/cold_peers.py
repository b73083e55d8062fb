"""Read the images from S3 with other people's libraries, through the caches that they keep on disk."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from torch.utils.data import DataLoader

from datafeed.bench.workloads import find

BUCKET = "peers"
_BATCH = 256
_WORKERS = 2
_CHUNK_NBYTES = 2**26  # the size that streaming takes unless told
PACKAGES = {"mosaicml-streaming": "streaming", "LitData": "litdata"}
_NEEDS = {"mosaicml-streaming": ("streaming", "catalogue", "boto3"), "LitData": ("litdata", "boto3")}

Epoch = Callable[[], int]


def missing(name: str) -> str:
    """Return why a peer cannot be measured; empty where it can."""
    lacking = [module for module in _NEEDS[name] if find_spec(module) is None]
    return f"{', '.join(lacking)} not installed" if lacking else ""


def prepare(data: Path, name: str) -> None:
    """Write the images as a peer keeps them, where an earlier call did not.

    Args:
        data: The folder with `raw/images`; the copy goes to the bucket in it.
        name: The peer.
    """
    dest = data / BUCKET / PACKAGES[name]
    if not (dest / "index.json").exists():
        dest.mkdir(parents=True, exist_ok=True)
        _WRITERS[name](dest, _images(data / "raw" / "images"))


def _bare(*names: str) -> None:
    """Stand bare packages in for streaming's own, whose __init__ import transformers, which no reading needs."""
    found = find_spec("streaming") if "streaming" not in sys.modules else None
    if found is not None and found.submodule_search_locations:
        root = found.submodule_search_locations[0]
        for name in names:
            module = sys.modules[name] = ModuleType(name)
            module.__path__ = [os.path.join(os.path.dirname(root), *name.split("."))]


def _images(folder: Path) -> Iterator[tuple[bytes, int]]:
    for label, path in enumerate(sorted(find(folder).source.iterdir())):
        for file in sorted(path.iterdir()):
            yield file.read_bytes(), label


def _write_mds(dest: Path, images: Iterator[tuple[bytes, int]]) -> None:
    _bare("streaming", "streaming.base")
    from streaming.base.format.mds.writer import MDSWriter

    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=str(dest), columns=columns, size_limit=_CHUNK_NBYTES, exist_ok=True) as writer:
        for image, label in images:
            writer.write({"image": image, "label": label})


def _write_litdata(dest: Path, images: Iterator[tuple[bytes, int]]) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(dest), chunk_bytes=_CHUNK_NBYTES)
    for number, (image, label) in enumerate(images):
        writer[number] = {"image": image, "label": label}
    writer.done()
    writer.merge()


_WRITERS = {"mosaicml-streaming": _write_mds, "LitData": _write_litdata}


def begin_streaming(storage_options: dict[str, object]) -> Epoch:
    """Read an epoch with mosaicml-streaming, cold: each call has a cache of its own."""
    _bare("streaming", "streaming.base")
    from streaming.base.dataset import StreamingDataset

    os.environ |= _environment(storage_options)

    def epoch() -> int:
        with tempfile.TemporaryDirectory() as local:
            remote = f"s3://{BUCKET}/streaming"
            dataset = StreamingDataset(remote=remote, local=local, shuffle=True, batch_size=_BATCH)
            loader = DataLoader(dataset, batch_size=_BATCH, num_workers=_WORKERS, collate_fn=_collate)
            return sum(loader)

    return epoch


def begin_litdata(storage_options: dict[str, object]) -> Epoch:
    """Read an epoch with LitData, cold: each call has a cache of its own."""
    from litdata import StreamingDataLoader, StreamingDataset

    environment = _environment(storage_options)
    options = {
        "endpoint_url": environment["S3_ENDPOINT_URL"],
        "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
        "region_name": environment["AWS_DEFAULT_REGION"],
    }

    def epoch() -> int:
        with tempfile.TemporaryDirectory() as local:
            dataset = StreamingDataset(f"s3://{BUCKET}/litdata", shuffle=True, storage_options=options, cache_dir=local)
            loader = StreamingDataLoader(dataset, batch_size=_BATCH, num_workers=_WORKERS, collate_fn=_collate)
            return sum(loader)

    return epoch


def _environment(storage_options: dict[str, object]) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "S3_ENDPOINT_URL": "endpoint_url"}
    return {"AWS_DEFAULT_REGION": "us-east-1", **{name: str(storage_options[key]) for name, key in keys.items()}}


def _collate(samples: Sequence[dict[str, bytes]]) -> int:
    """Return the bytes of a batch's images, which is what their sum checks."""
    return sum(len(sample["image"]) for sample in samples)


PEERS: dict[str, Callable[[dict[str, object]], Epoch]] = {
    "mosaicml-streaming": begin_streaming,
    "LitData": begin_litdata,
}
