"""Show the way from raw images to a trained model, on scikit-learn's handwritten digits.

Local folders stand in for the bucket. The digits are written as PNG files in a folder per class, converted, and fed to
a small network. What a training loop relies on is checked on the way: each sample exactly once an epoch, and after a
stop, exactly those that were left.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from datafeed import ConvertOptions, Dataset, ImageOptions, Loader, convert
from datafeed.commands.describe import describe_dataset
from datafeed.errors import ConfigError, MissingExtra
from datafeed.making import Batch
from datafeed.sizes import format_size

GOAL = 0.95
_FILE_SIDE = 32  # pixels; the digits are 8x8, and are enlarged four times
_SIDE = 16  # pixels that the network takes
_BATCH = 64
_SEED = 7

Say = Callable[[str], None]
Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Choose how large the demo is.

    Args:
        folder: Where raw images and datasets are kept; None for a temporary one, which is removed.
        shard_size: Stored bytes of a shard, small so that there are many.
        block_size: Raw bytes of a block, small so that there are many.
        epochs: Passes over the digits, at least 1.
        digits: How many digits are used, 100 to 1797.

    Raises:
        ConfigError: A number is out of bounds.
    """

    folder: Path | None = None
    shard_size: str = "40kB"
    block_size: str = "2KiB"
    epochs: int = 10
    digits: int = 1797

    def __post_init__(self) -> None:
        if self.epochs < 1 or not 100 <= self.digits <= 1797:
            raise ConfigError(f"expected at least 1 epoch and 100 to 1797 digits, found {self.epochs}, {self.digits}")


@dataclass(frozen=True, slots=True)
class Fed:
    """Say how a training loop was fed.

    Attributes:
        samples: Samples that it took.
        wait_s: Seconds that it waited for batches, first ones included.
        step_s: Seconds that it trained.
    """

    samples: int
    wait_s: float
    step_s: float

    def __str__(self) -> str:
        seconds = self.wait_s + self.step_s
        return f"{self.samples / seconds:8,.0f} samples/s, {100 * self.wait_s / seconds:5.1f} % stall"


def run_demo(options: DemoOptions, say: Say) -> bool:
    """Convert, train, compare, stop and resume, telling each step.

    Args:
        options: How large it is.
        say: Takes the lines.

    Returns:
        Whether the network got enough of the held-out digits right and every sample came exactly once.

    Raises:
        MissingExtra: scikit-learn, OpenCV or simplejpeg is missing.
        OutputError: The folder holds something else.
    """
    with _one_thread(), _folder(options.folder) as folder:
        say(f"1. Raw data: scikit-learn's handwritten digits as PNG files, a folder per class, in {folder / 'raw'}")
        counts = write_digits(folder / "raw", options.digits)
        say(f"   {counts['train']:,} to train on, {counts['test']:,} held out")
        say("2. Convert both: datafeed convert RAW DEST")
        urls = {part: _convert(folder, part, options, say) for part in ("train", "test")}
        say("   datafeed info says of the first:")
        say(_indented(describe_dataset(urls["train"], Dataset(urls["train"]).manifest)))
        say(f"3. Train through datafeed.Loader: {options.epochs} epochs in batches of {_BATCH}, shuffled")
        right, once, ours = _train_on_shards(urls, options.epochs)
        say(f"   {right:.1%} of the held-out digits right (goal {GOAL:.0%})")
        say(f"   every sample exactly once in every epoch: {_yes(once)}")
        say("4. The same training through torch.utils.data.DataLoader over the PNG files, with 2 worker processes")
        theirs = _train_on_files(folder / "raw" / "train", options.epochs)
        say(f"   Loader     {ours}")
        say(f"   DataLoader {theirs}")
        say("5. Stop in the middle of an epoch, resume another Loader from the saved state")
        resumed = _stop_and_resume(urls["train"], say)
        say(f"   before and after together, every sample exactly once: {_yes(resumed)}")
    passed = right >= GOAL and once and resumed
    say("The demo passed." if passed else "The demo failed.")
    return passed


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: the network is too small to share out, and both loaders want the other cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _yes(fact: bool) -> str:  # noqa: FBT001  (a fact to be worded)
    return "yes" if fact else "NO"


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="datafeed-demo-") as name:
        yield Path(name)


def write_digits(folder: Path, digits: int) -> dict[str, int]:
    """Write digits as PNG files: folder/train/CLASS/NAME.png, every fifth of a class under folder/test.

    Args:
        folder: Where to.
        digits: How many of the 1,797.

    Returns:
        How many there are in "train" and "test".

    Raises:
        MissingExtra: scikit-learn or OpenCV is missing.
    """
    try:
        import cv2
        from sklearn.datasets import load_digits
    except ImportError as exc:
        raise MissingExtra(exc.name or "scikit-learn", "all", "to run the demo") from exc
    images, labels = load_digits(return_X_y=True)
    counts = {"train": 0, "test": 0}
    seen = [0] * 10
    for number, (pixels, label) in enumerate(zip(images[:digits], labels[:digits].tolist(), strict=True)):
        seen[label] += 1
        part = "train" if seen[label] % 5 else "test"
        small = np.minimum(pixels.reshape(8, 8) * 16, 255).astype(np.uint8)
        large = cv2.resize(small, (_FILE_SIDE, _FILE_SIDE), interpolation=cv2.INTER_LINEAR)
        path = folder / part / str(label) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cv2.imencode(".png", large)[1].tobytes())
        counts[part] += 1
    return counts


def _convert(folder: Path, part: str, options: DemoOptions, say: Say) -> str:
    dest = str(folder / part)
    settings = ConvertOptions(
        shard_size=options.shard_size,
        block_size=options.block_size,
        extent_size=options.block_size,  # every block an extent: the order then has hundreds to shuffle
        seed=_SEED,
        workers=1,
    )
    convert(folder / "raw" / part, dest, settings)
    manifest = Dataset(dest).manifest
    blocks = sum(shard.blocks for shard in manifest.shards)
    say(
        f"   {part:<5} {manifest.records:>5,} records in {len(manifest.shards):>2} shards of {blocks:>3,} blocks, "
        f"{format_size(manifest.nbytes)}"
    )
    return dest


def _indented(text: str) -> str:
    return "\n".join(f"      {line}".rstrip() for line in text.splitlines())


def _network() -> torch.nn.Module:
    torch.manual_seed(_SEED)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * (_SIDE // 4) ** 2, 10),
    )


class _Trainer:
    """Train a network on batches of (images, labels), and measure what it waits for."""

    def __init__(self) -> None:
        self.network = _network()
        self._optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-2)
        self._samples = 0
        self._wait_s = 0.0
        self._step_s = 0.0

    @property
    def fed(self) -> Fed:
        return Fed(self._samples, self._wait_s, self._step_s)

    def epoch(self, batches: Batches) -> None:
        clock = time.perf_counter()
        for images, labels in batches:
            arrived = time.perf_counter()
            self._wait_s += arrived - clock
            loss = functional.cross_entropy(self.network(_scaled(images)), labels)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            self._optimizer.step()
            self._samples += len(labels)
            clock = time.perf_counter()
            self._step_s += clock - arrived
        self._wait_s += time.perf_counter() - clock


def _scaled(images: torch.Tensor) -> torch.Tensor:
    return images.float() / 255


def _train_on_shards(urls: dict[str, str], epochs: int) -> tuple[float, bool, Fed]:
    """Return the share of held-out digits that are right, whether each sample came once, and how it was fed."""
    image = ImageOptions(size=_SIDE)
    loader = Loader(urls["train"], batch_size=_BATCH, shuffle=True, seed=_SEED, image=image)
    everyone = sorted(_paths(urls["train"]))
    trainer, once = _Trainer(), True
    for _ in range(epochs):
        seen: list[str] = []
        trainer.epoch(_pairs(loader, seen))
        once = once and sorted(seen) == everyone
    right = total = 0
    with torch.no_grad():
        for batch in Loader(urls["test"], batch_size=_BATCH, image=image):
            images, labels = _tensors(batch)
            right += int((trainer.network(_scaled(images)).argmax(1) == labels).sum())
            total += len(labels)
    return right / total, once, trainer.fed


def _pairs(loader: Loader, seen: list[str]) -> Batches:
    for batch in loader:
        seen += map(str, batch["path"])
        yield _tensors(batch)


def _tensors(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = batch["image"], batch["label"]
    assert isinstance(images, torch.Tensor)
    assert isinstance(labels, torch.Tensor)
    return images, labels


def _paths(url: str) -> list[str]:
    return list(map(str, Dataset(url)[:]["path"]))


class _Files(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Read PNG files in folders per class, as anybody would without shards."""

    def __init__(self, folder: Path) -> None:
        self._paths = sorted(folder.glob("*/*.png"))

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        import cv2

        path = self._paths[number]
        pixels = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR_RGB)
        pixels = cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR)
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), int(path.parent.name)


def _train_on_files(folder: Path, epochs: int) -> Fed:
    loader = torch.utils.data.DataLoader(
        _Files(folder), batch_size=_BATCH, shuffle=True, num_workers=2, persistent_workers=True
    )
    trainer = _Trainer()
    for _ in range(epochs):
        trainer.epoch(loader)
    return trainer.fed


def _stop_and_resume(url: str, say: Say) -> bool:
    def fresh() -> Loader:
        return Loader(url, batch_size=_BATCH, shuffle=True, seed=_SEED, columns=["path"])

    first = fresh()
    seen: list[str] = []
    for batch in first:
        seen += map(str, batch["path"])
        if len(seen) > len(first) * _BATCH // 3:
            break
    saved = json.dumps(first.state_dict())
    second = fresh()
    second.load_state_dict(json.loads(saved))
    rest = [str(path) for batch in second for path in batch["path"]]
    say(f"   {len(seen):,} samples before the stop, {len(rest):,} after; the state is {len(saved)} bytes of JSON")
    return sorted(seen + rest) == sorted(_paths(url))
