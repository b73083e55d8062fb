"""Check how a cache is described, and that what is wrong is refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from datafeed.cache.config import Cache, memory_nbytes
from datafeed.errors import ConfigError


def test_any_subset_of_tiers(tmp_path: Path) -> None:
    """Sizes are read as people write them, shares are of the volume and of the memory; the fastest tier is first."""
    (tmp_path / "a").mkdir()
    cache = Cache(ebs=(tmp_path, "500GB"), nvme=(tmp_path / "a", "50%"), host="10 %")
    assert list(cache.disks()) == ["nvme", "ebs"]
    assert cache.disks()["ebs"].budget == 500_000_000_000
    assert cache.disks()["nvme"].budget > 10**6
    assert cache.host_nbytes() == memory_nbytes() // 10
    assert Cache().disks() == {}
    assert Cache(host=5).host_nbytes() == 5
    assert Cache(vram="25%").vram_nbytes(1000, "cuda:0") == 250
    assert Cache(host=5).vram_nbytes(1000, "cuda:0") == 0
    assert pickle.loads(pickle.dumps(cache)) == cache  # noqa: S301


def test_a_file_says_the_same(tmp_path: Path) -> None:
    """A TOML file has the arguments as its keys, and the environment names the file."""
    path = tmp_path / "cache.toml"
    path.write_text(f'nvme = ["{tmp_path}", "200GB"]\nhost = "1GB"\npolicy = "lru"\n')
    expected = Cache(nvme=(tmp_path, "200GB"), host="1GB", policy="lru")
    assert Cache.load(path) == expected
    assert Cache.from_environment({"DATAFEED_CACHE": str(path)}) == expected
    assert Cache.from_environment({}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nvme": ("/x", "10 QB")}, "nvme '10 QB' is no size"),
        ({"nvme": ("/x", 0)}, "nvme must be at least one byte, found 0"),
        ({"nvme": ("/x", -5)}, "nvme -5 is no size"),
        ({"ebs": ("/x", "0%")}, "ebs must be above 0 %"),
        ({"ebs": ("/x", "101%")}, "ebs must be above 0 % and at most 100 %, found '101%'"),
        ({"ebs": "/x"}, "ebs must be .directory, size."),
        ({"ebs": ("", "1GB")}, "ebs must be .directory, size."),
        ({"ebs": (5, "1GB")}, "ebs must be .directory, size."),
        ({"ebs": ("s3://bucket", "1GB")}, "ebs='s3://bucket' is a URL"),
        ({"ebs": ("/x", True)}, "ebs True is no size"),
        ({"host": "much"}, "host 'much' is no size"),
        ({"host": 1.5}, "host 1.5 is no size"),
        ({"policy": "fifo"}, "policy must be 'epoch' or 'lru', found 'fifo'"),
        ({"vram": "8 QB"}, "vram '8 QB' is no size"),
        ({"vram": 0}, "vram must be at least one byte, found 0"),
        ({"ebs": ("/x", 1), "nvme": ("/x/", 1)}, "both '/x'"),
    ],
)
def test_f17_a_bad_value_is_refused_by_name(options: dict[str, object], message: str) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigError, match=message):
        Cache(**options)  # type: ignore[arg-type]


def test_what_this_machine_does_not_have_is_refused(tmp_path: Path) -> None:
    """More memory than there is, and a directory that is not there."""
    with pytest.raises(ConfigError, match="host='900TB' is more than the"):
        Cache(host="900TB").host_nbytes()
    with pytest.raises(ConfigError, match=r"vram='8GB' is more than the 4\.0 GB that cuda:0 has"):
        Cache(vram="8GB").vram_nbytes(4 * 10**9, "cuda:0")
    with pytest.raises(ConfigError, match=r"nvme: the directory .* is not there"):
        Cache(nvme=(tmp_path / "missing", "1GB")).disks()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nvme = [", "are no TOML"),
        ('disk = "1GB"', "unknown 'disk'"),
        ('host = "1 XB"', "cache.toml': host '1 XB' is no size"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    """With what is known, and what was found."""
    path = tmp_path / "cache.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        Cache.load(path)
    with pytest.raises(ConfigError, match="cannot read the cache's settings"):
        Cache.load(tmp_path / "missing.toml")
