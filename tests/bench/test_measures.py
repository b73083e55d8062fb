"""Run every measurement at toy size, each on the right data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from datafeed.bench.case import Case, Contender, Sample, Step
from datafeed.bench.limits import LIMITS
from datafeed.bench.measures import MEASURES, measure_apart
from datafeed.bench.prepare import TOY_COUNTS
from datafeed.bench.rates import measure_rate
from datafeed.bench.throughput import check_same


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_limits_see_every_sample(name: str, case: Case, checksums: dict[str, int]) -> None:
    """An epoch of each bare limit goes over all samples of its workload."""
    workload = name.split("/", maxsplit=1)[0]
    assert workload in checksums
    sample = MEASURES[name](case)
    assert sample.facts["samples_per_epoch"] == sample.samples == TOY_COUNTS[workload]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(set(MEASURES) - set(LIMITS)))
def test_measure_delivers_the_right_samples(name: str, case: Case, checksums: dict[str, int]) -> None:
    """Each other measurement, in a process of its own, sees the samples that were made."""
    told = replace(case, workers=1) if name.startswith("convert") else case  # without the seconds that Ray takes
    sample = measure_apart(name, told)
    check_same({name: [sample]}, checksums)
    assert sample.samples > 0


def test_measure_apart_reports_what_failed() -> None:
    """A child's error travels in the exception."""
    with pytest.raises(RuntimeError, match=r"tokens/zstd failed(.|\n)*DatasetNotFound"):
        measure_apart("tokens/zstd", Case("/nowhere"))


def test_measure_rate_refuses_epochs_that_differ() -> None:
    """A contender that loses samples in a later epoch has no rate."""
    counts = [3, 2]

    def epoch() -> list[Step]:
        return [(counts.pop(0), {})]

    with pytest.raises(ValueError, match="expected 3 samples an epoch"):
        measure_rate(Contender(lambda _case: lambda: iter(epoch())), Case("", seconds=0))


def test_check_same_refuses_other_samples() -> None:
    """Contenders are held to the workload's digest, or to each other's where it has none."""
    samples = [Sample(1.0, 1, 1.0, 7, "pixels")]
    check_same({"a": samples, "b": samples}, {})
    with pytest.raises(ValueError, match="b: expected pixels of digest 7, found 8"):
        check_same({"a": samples, "b": [Sample(1.0, 1, 1.0, 8, "pixels")]}, {})
    with pytest.raises(ValueError, match="a: expected pixels of digest 9"):
        check_same({"a": samples}, {"pixels": 9})
