"""Describe the machine that figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "datafeed-torch", "torch", "numpy", "zstandard", "pyarrow", "ray", "simplejpeg", "opencv-python-headless",
    "datasets", "mosaicml-streaming", "tensorflow-cpu", "webdataset",
)  # fmt: skip

Machine = dict[str, object]


def describe_machine() -> Machine:
    """Return processor, cores, memory, kernel, versions, commit and load, as JSON values; no names or addresses."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(_field("/proc/meminfo", "MemTotal").split()[0]) * 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "--untracked-files=no").splitlines()),
        "load": list(os.getloadavg()),
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _git(*arguments: str) -> str:
    """Return what git says of the folder that this file is in; nothing where there is no repository."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
