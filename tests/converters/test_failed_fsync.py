"""Test a conversion on a disk that fails to keep what was written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numbered import Numbered, digests

import datafeed
from datafeed.converters.convert import ConvertOptions, convert

TESTS = Path(__file__).parents[1]
OPTIONS = ConvertOptions(shard_size=4000, block_size=700, workers=1)
FSYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>

static int left;

void fail_fsync(int call) { left = call; }

int fsync(int fd) {
    if (left && --left == 0) {  /* as Linux does: the next one succeeds again, though the bytes are lost */
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
"""
CHILD = """
import ctypes, json, sys
from numbered import Numbered
from datafeed.errors import OutputError
from test_failed_fsync import OPTIONS, convert

folder, library = sys.argv[1:]
arm = ctypes.CDLL(library).fail_fsync
failures = []
while len(failures) < 100:
    arm(len(failures) + 1)
    try:
        convert(Numbered(60), f"{folder}/{len(failures)}", OPTIONS)
    except OutputError as exc:
        failures.append([exc.errno, exc.filename])
        continue
    break
print(json.dumps(failures))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile an fsync that fails when it is told to."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NOT TESTED: a failing fsync needs a C compiler")
    folder = tmp_path_factory.mktemp("fsync")
    (folder / "fsync.c").write_text(FSYNC)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "fsync.so"), str(folder / "fsync.c"), "-ldl"]
    subprocess.run(command, check=True)
    return folder / "fsync.so"


def test_f03_failed_fsync_leaves_nothing_under_a_final_name(tmp_path: Path, library: Path) -> None:
    """Each fsync of a conversion fails once, of a file or its folder: the error names the file, which is not there.

    No fsync is tried again, no dataset is committed, and the same call afterwards makes the same bytes.
    """
    paths = [str(TESTS), str(Path(__file__).parent), str(Path(datafeed.__file__).parents[1])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LD_PRELOAD": str(library)}
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(library)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    failures = json.loads(done.stdout)
    whole = digests(tmp_path / str(len(failures)))
    names = [os.path.relpath(path, tmp_path / str(number)) for number, (_, path) in enumerate(failures)]
    assert set(names) == {*whole, "journal/plan.json", *(f"journal/{i:06d}.json" for i in range(len(whole) - 2))}
    for number, (code, path) in enumerate(failures):
        out = tmp_path / str(number)
        assert code == errno.EIO
        assert not Path(path).exists()
        assert not (out / "dataset.json").exists()
        assert not list(out.rglob(".*"))
        convert(Numbered(60), str(out), OPTIONS)
        assert digests(out) == whole
