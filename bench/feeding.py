"""Deliver the workloads with `datafeed.Loader`, from converted datasets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from datafeed.bench.case import Case, Contender, Epoch, Measure, Sample, Step
from datafeed.bench.memory import PeakMemory, this_process
from datafeed.cache.config import Cache
from datafeed.images import ImageOptions
from datafeed.loader import Loader
from datafeed.sizes import parse_size

MANY_SHARDS = 100
_WINDOW = "256MB"  # half of the images, so that windows come and go


def _begin(
    case: Case, name: str, columns: Sequence[str] | None = None, *, decoded: bool = False, tier: str = ""
) -> Epoch:
    image = ImageOptions(case.side) if decoded else None
    # Behind a cache the dataset is one on a store that is not local, which the checked epoch leaves in the tier.
    loader = Loader(
        f"local://{case.converted(name)}" if tier else case.converted(name),
        case.batch_size,
        shuffle=True,
        num_workers=case.workers,
        columns=columns,
        image=image,
        cache=_cache(case, tier) if tier else None,
    )
    counted = columns[-1] if columns else "label"

    def epoch() -> Iterator[Step]:
        for batch in loader:
            yield len(batch[counted]), batch

    return epoch


def _cache(case: Case, tier: str) -> Cache:
    """Return a cache of one tier that holds any workload."""
    if tier == "memory":
        return Cache(host="50%")
    folder = case.scratch("cache")
    folder.mkdir(parents=True, exist_ok=True)
    return Cache(nvme=(folder, "20GB"))


def measure_first_batch(case: Case) -> Sample:
    """Time from constructing a Loader over many shards to its first batch, in a process that did nothing before."""
    begun = time.perf_counter()
    loader = Loader(case.converted("many"), case.batch_size, shuffle=True, num_workers=case.workers)
    batches = iter(loader)
    batch = next(batches)
    seconds = time.perf_counter() - begun
    shards = len(loader.dataset.source.manifest.shards)  # type: ignore[attr-defined]  # what stands for a dataset
    if shards < MANY_SHARDS:
        raise ValueError(f"expected at least {MANY_SHARDS} shards, found {shards}")
    return Sample(seconds, len(batch["tokens"]), seconds, facts={"shards": shards})


def measure_memory(case: Case) -> Sample:
    """Measure what the process of a Loader takes beside its window, at the most in two epochs over the images."""
    before = this_process()[0].memory_full_info().pss
    loader = Loader(case.converted("images"), case.batch_size, shuffle=True, num_workers=case.workers, window=_WINDOW)
    samples = 0
    begun = time.perf_counter()
    with PeakMemory(this_process) as peak:
        for _ in range(2):
            samples += sum(len(batch["label"]) for batch in loader)
    seconds = time.perf_counter() - begun
    window = min(parse_size(_WINDOW), loader.dataset.source.manifest.raw_bytes)  # type: ignore[attr-defined]  # as above
    (most,) = peak.pss.values()
    facts = {"pss_before": before, "pss_most": most, "window": window}
    return Sample(most - before - window, samples, seconds, facts=facts)


FEEDS: dict[str, Contender] = {
    "tokens/Loader": Contender(partial(_begin, name="tokens", columns=["tokens"]), "tokens"),
    "tabular/Loader": Contender(partial(_begin, name="tabular"), "tabular"),
    "images/Loader": Contender(partial(_begin, name="images", columns=["image", "label"]), "images"),
    "images/Loader decoded": Contender(
        partial(_begin, name="images", columns=["image", "label"], decoded=True), "pixels"
    ),
    **{
        f"{name}/Loader from {tier}": Contender(partial(_begin, name=name, columns=columns, tier=tier), digest)
        for name, columns, digest in (("tokens", ["tokens"], "tokens"), ("tabular", None, ""))
        for tier in ("disk", "memory")
    },
}
STARTS: dict[str, Measure] = {"first batch": measure_first_batch, "memory": measure_memory}
