"""Test the encoding of samples as MDS shards hold them, against one that goes value by value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from golden_data import to_column

from datafeed.columns import offsets_of
from datafeed.converters.export_mds_samples import Samples, encoded
from datafeed.schema import Feature, stored

COUNTS = [0, 1, 255, 256, 65535, 65536]
FEATURES = {
    "id": (stored("id", "int64"), list(range(6))),
    "on": (stored("on", "bool"), [True, False] * 3),
    "pair": (stored("pair", "float16", (2, 1)), [np.full((2, 1), i, np.float16) for i in range(6)]),
    "list": (stored("list", "uint16", (None,)), [np.arange(count).astype(np.uint16) for count in COUNTS]),
    "wide": (stored("wide", "int8", (None, 300)), [np.full((i, 300), i, np.int8) for i in range(6)]),
    "text": (stored("text", "utf8"), ["", "é", "abc", "", "d" * 17, "e"]),
    "blob": (stored("blob", "bytes"), [b"\0" * 1000 * i for i in range(6)]),
    "key": (stored("key", "bytes"), [b"12", b"34", b"56", b"78", b"90", b"ab"]),
}


def by_hand(feature: Feature, value: object) -> bytes:
    """Return the bytes of a value."""
    if not feature.numeric:
        return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]  # bytes
    array = np.asarray(value, feature.numpy_dtype)
    if not feature.ragged:
        return array.tobytes()
    width = next(width for width in (1, 2, 4) if max(array.shape) < 256**width)
    dims = b"".join(size.to_bytes(width, "little") for size in array.shape)
    return bytes([array.ndim * 4 + {1: 0, 2: 1, 4: 2}[width]]) + dims + array.tobytes()


@pytest.mark.parametrize("names", [["id"], ["id", "on", "pair"], ["key", "id"], ["list"], ["id", "text"], [*FEATURES]])
def test_samples_are_those_made_value_by_value(names: Sequence[str]) -> None:
    """Sizes first, of what differs in size; then the values."""
    features = [FEATURES[name][0] for name in names]
    values = [FEATURES[name][1] for name in names]
    found = encoded(features, [to_column(feature, value) for feature, value in zip(features, values, strict=True)], 6)
    offsets = offsets_of(found.sizes)
    for row in range(6):
        parts = [by_hand(feature, value[row]) for feature, value in zip(features, values, strict=True)]
        told = [len(part) for part, one in zip(parts, features, strict=True) if one.ragged or not one.numeric]
        expected = np.array(told, "<u4").tobytes() + b"".join(parts)
        assert found.data[offsets[row] : offsets[row + 1]].tobytes() == expected
    assert offsets[-1] == len(found.data)


def test_some_samples_are_views() -> None:
    """They share the bytes."""
    samples = Samples(np.arange(9, dtype=np.uint8), np.array([2, 0, 3, 4]))
    some = samples.between(1, 3)
    assert (some.data.tolist(), some.sizes.tolist()) == ([2, 3, 4], [0, 3])
    assert np.shares_memory(some.data, samples.data)
