"""Measure how many samples a second a contender delivers."""

from __future__ import annotations

import time

from datafeed.bench.case import Case, Contender, Sample
from datafeed.bench.digests import DIGESTS, MODULUS


def measure_rate(contender: Contender, case: Case) -> Sample:
    """Run an epoch that is checked and not timed, then whole epochs until the time is over.

    Args:
        contender: What delivers.
        case: How long, and where the data are.

    Returns:
        Samples per second, with the digest of the epoch that was checked.

    Raises:
        ValueError: An epoch delivered another number of samples than the one before.
    """
    epoch = contender.begin(case)
    digest = DIGESTS.get(contender.digest)
    count = checksum = 0
    for samples, batch in epoch():
        count += samples
        checksum += digest(batch) if digest else 0
    total = 0
    begun = time.perf_counter()
    while (seconds := time.perf_counter() - begun) < case.seconds or not total:
        seen = sum(samples for samples, _ in epoch())
        if seen != count:
            raise ValueError(f"expected {count} samples an epoch as in the first, found {seen}")
        total += seen
    return Sample(
        value=total / seconds,
        samples=total,
        seconds=seconds,
        checksum=checksum % MODULUS if digest else None,
        digest=contender.digest,
        facts={"samples_per_epoch": count},
    )
