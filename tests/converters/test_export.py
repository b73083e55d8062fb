"""Test the export, with the readers that it is made for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from numbered import Numbered, digests, records
from peer import Peer
from tiny import example, framed

from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.export import ExportOptions, export
from datafeed.converters.lock import locked
from datafeed.errors import ConfigError, CorruptData, DatasetNotFound, OutputDiffers, OutputLocked
from datafeed.storage import open_store

SOURCE = Numbered(400)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a dataset of several shards."""
    out = tmp_path_factory.mktemp("dataset")
    convert(SOURCE, str(out), ConvertOptions(shard_size=9000, block_size=700, workers=1))
    return str(out)


@pytest.fixture
def exported(dataset: str, tmp_path: Path) -> Path:
    """Return its export."""
    export(dataset, str(tmp_path / "out"))
    return tmp_path / "out"


EXPECTED = [[row, SOURCE.expected(row).hex()] for row in range(400)]


def test_files_hold_the_records_as_they_are(dataset: str, exported: Path) -> None:
    """The files end to end are the framed records; each line of an index names a whole record."""
    plain = b"".join(path.read_bytes() for path in sorted(exported.glob("*.tfrecord")))
    assert plain == framed(records(dataset))
    for path in exported.glob("*.idx"):
        data = path.with_suffix(".tfrecord").read_bytes()
        lines = [tuple(map(int, line.split(" "))) for line in path.read_text().splitlines()]
        assert [offset for offset, _ in lines] == [sum(n for _, n in lines[:i]) for i in range(len(lines))]
        assert sum(nbytes for _, nbytes in lines) == len(data)
        assert all(int.from_bytes(data[o : o + 8], "little") == n - 16 for o, n in lines)


def test_report_counts(dataset: str, tmp_path: Path) -> None:
    """The report counts files, records and bytes, and progress reaches the end."""
    seen: list[tuple[int, int]] = []
    report = export(dataset, str(tmp_path), on_progress=lambda done, total: seen.append((done, total)))
    files = [*tmp_path.glob("*.tfrecord"), *tmp_path.glob("*.idx")]
    assert (report.files, report.records, report.resumed) == (len(files), 400, 0)
    assert report.nbytes == sum(path.stat().st_size for path in files)
    assert seen[-1] == (400, 400)
    assert len(seen) > len(files) // 2 > 2


def test_destination_that_is_not_empty_is_refused(dataset: str, tmp_path: Path) -> None:
    """Nothing is written beside files of somebody else."""
    (tmp_path / "mine").write_bytes(b"x")
    with pytest.raises(OutputDiffers, match="not empty: it holds 'mine'"):
        export(dataset, str(tmp_path))
    assert list(digests(tmp_path)) == ["mine"]


def test_no_dataset_is_named(tmp_path: Path) -> None:
    """A place without a dataset is an error, and no destination is made."""
    with pytest.raises(DatasetNotFound):
        export(str(tmp_path / "none"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_damaged_block_is_not_exported(tmp_path: Path) -> None:
    """A shard with a wrong byte ends the export; the file that would hold it does not appear."""
    convert(SOURCE, str(tmp_path / "a"), ConvertOptions(shard_size=9000, block_size=700, workers=1))
    shard = tmp_path / "a" / "shard-000001.tfrecord.zst"
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptData, match="shard-000001"):
        export(str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(path.name for path in (tmp_path / "b").glob("shard-*")) == [
        "shard-000000.idx",
        "shard-000000.tfrecord",
    ]


@pytest.mark.peers
def test_tensorflow_reads_the_export(exported: Path, tensorflow: Peer) -> None:
    """TensorFlow's TFRecordDataset finds every row, value for value."""
    program = """
import json, sys, tensorflow as tf
spec = {"x": tf.io.FixedLenFeature([], tf.int64), "blob": tf.io.FixedLenFeature([], tf.string)}
rows = []
for record in tf.data.TFRecordDataset(sys.argv[1:]):
    found = tf.io.parse_single_example(record, spec)
    rows.append([int(found["x"]), found["blob"].numpy().hex()])
print(json.dumps(rows))
"""
    assert json.loads(tensorflow.run(program, *map(str, sorted(exported.glob("*.tfrecord"))))) == EXPECTED


@pytest.mark.peers
def test_dali_reads_the_export_with_its_index(exported: Path) -> None:
    """DALI's reader finds every row through the index files, value for value."""
    program = """
import json, sys
import numpy as np
from nvidia.dali import fn, pipeline_def
from nvidia.dali import tfrecord as tfrec
files = sys.argv[1:]
@pipeline_def(batch_size=50, num_threads=1, device_id=None)
def pipe():
    found = fn.readers.tfrecord(
        path=files,
        index_path=[name.replace(".tfrecord", ".idx") for name in files],
        features={"x": tfrec.FixedLenFeature([1], tfrec.int64, 0), "blob": tfrec.FixedLenFeature((), tfrec.string, "")},
        name="reader",
    )
    return found["x"], found["blob"]
built = pipe()
built.build()
rows = []
while len(rows) < 400:
    x, blob = built.run()
    rows += [[int(np.array(x[i])[0]), np.array(blob[i]).tobytes().hex()] for i in range(50)]
print(json.dumps(rows))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, sorted(exported.glob("*.tfrecord")))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == EXPECTED


@pytest.mark.peers
def test_tfrecord_package_reads_the_export_with_its_index(exported: Path, tfrecord: Peer) -> None:
    """The `tfrecord` package finds every row through the index; it begins at a random one."""
    program = """
import json, sys
from tfrecord.reader import tfrecord_loader
rows = []
for name in sys.argv[1:]:
    for found in tfrecord_loader(name, name.replace(".tfrecord", ".idx"), {"x": "int", "blob": "byte"}):
        rows.append([int(found["x"][0]), bytes(found["blob"]).hex()])
print(json.dumps(rows))
"""
    assert sorted(json.loads(tfrecord.run(program, *map(str, exported.glob("*.tfrecord"))))) == EXPECTED


def test_rerun_of_a_finished_export_does_nothing(dataset: str, exported: Path) -> None:
    """The same call finds all files as they were; another one is refused with the differences."""
    before = {path: path.stat().st_mtime_ns for path in exported.iterdir()}
    assert export(dataset, str(exported)).ran_on == "nothing"
    assert {path: path.stat().st_mtime_ns for path in exported.iterdir()} == before
    with pytest.raises(OutputDiffers, match=r"columns: \[\] -> \['x'\]"):
        export(dataset, str(exported), options=ExportOptions(columns=("x",)))
    (exported / "shard-000000.idx").unlink()
    with pytest.raises(OutputDiffers, match=r"but not 'shard-000000.idx' as it was written"):
        export(dataset, str(exported))


def test_rerun_goes_on_after_a_stop(dataset: str, exported: Path, tmp_path: Path) -> None:
    """Shards that stand whole are kept, a cut one is written again, and the files are those of an undisturbed run."""
    out = tmp_path / "stopped"

    def stop(done: int, _: int) -> None:
        if done > 250:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(dataset, str(out), on_progress=stop)
    stood = len(list(out.glob("*.idx")))
    assert stood >= 2
    with pytest.raises(OutputDiffers, match=r"columns: \[\] -> \['x'\]"):
        export(dataset, str(out), options=ExportOptions(columns=("x",)))
    first = out / "shard-000000.tfrecord"
    first.write_bytes(first.read_bytes()[:-1])
    assert export(dataset, str(out)).resumed == stood - 1
    assert digests(out) == digests(exported)


def test_killed_export_leaves_whole_files_and_goes_on(dataset: str, exported: Path, tmp_path: Path) -> None:
    """Killed at every third change, each file under a final name is whole, and a rerun ends with the same bytes."""
    whole = digests(exported)
    killed = 0
    for point in range(1, 40, 3):
        out = tmp_path / f"killed{point}"
        pid = os.fork()
        if not pid:
            _kill_at(out, point)
            export(dataset, str(out))
            os._exit(0)
        killed += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        found = digests(out) if out.exists() else {}
        assert all(whole[name] == found[name] for name in found if name.startswith("shard-"))
        export(dataset, str(out))
        assert digests(out) == whole
    assert killed > 8


def _kill_at(folder: Path, point: int) -> None:
    """Kill this process before its change number `point` in a folder."""
    seen = []

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event in {"open", "os.rename", "os.remove", "os.mkdir"} and str(args[0]).startswith(str(folder)):
            seen.append(event)
            if len(seen) == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def test_ray_writes_the_same_bytes(dataset: str, exported: Path, tmp_path: Path, ray_workers: int) -> None:
    """Shards that workers write are those of one process."""
    report = export(dataset, str(tmp_path / "ray"), options=ExportOptions(workers=ray_workers, ray_address="auto"))
    assert (report.ran_on, report.workers, report.records) == ("ray", ray_workers, 400)
    assert digests(tmp_path / "ray") == digests(exported)


def test_columns_choose_features(dataset: str, tmp_path: Path) -> None:
    """Records are written anew with those alone; an unknown one is refused before anything is written."""
    export(dataset, str(tmp_path / "out"), options=ExportOptions(columns=("x",)))
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").glob("*.tfrecord")))
    assert data == framed([example({"x": [row]}) for row in range(400)])
    with pytest.raises(ConfigError, match="no feature 'y'; there are x, blob"):
        export(dataset, str(tmp_path / "none"), options=ExportOptions(columns=("y",)))
    assert not (tmp_path / "none").exists()


def test_destination_in_the_dataset_is_refused(dataset: str) -> None:
    """A dataset is read-only."""
    with pytest.raises(ConfigError, match="lies in the source"):
        export(dataset, f"{dataset}/out")


def test_two_exports_into_one_place_are_refused(dataset: str, tmp_path: Path) -> None:
    """The second is told who holds the lock."""
    with locked(open_store(str(tmp_path))), pytest.raises(OutputLocked, match="locked by"):
        export(dataset, str(tmp_path))
