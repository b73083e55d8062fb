"""Draw random numbers that are the same for ever: splitmix64 on counters.

No library's generator is asked, whose stream may change with its version (Steele, Lea, Flood: "Fast splittable
pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_WORD = 0xFFFFFFFFFFFFFFFF

# What a stream of random numbers is for: streams of different purposes never meet.
EXTENTS, RUNS, WINDOW, FEISTEL, _SAMPLE = 1, 2, 3, 4, 5
SPLIT_BLOCKS, SPLIT_ROWS, SPLIT_EXTENTS = 6, 7, 8
_IMAGE = 9
MIX = 10

_FEISTEL_ROUNDS = 6


def permutation(count: int, key: int) -> Places:
    """Return a permutation of 0 to count - 1, chosen by a 64-bit key.

    The high bits of each sort key are random, the low ones its own index: no two are equal, so every sort gives the
    same result, and a plain sort (three times as fast as argsort) is enough.
    """
    mask = np.uint64((1 << max(0, count - 1).bit_length()) - 1)
    index = np.arange(count, dtype=np.uint64)
    keys = mix(index * np.uint64(GOLDEN) + np.uint64(key)) & ~mask | index
    keys.sort()
    keys &= mask
    return keys


def feistel(positions: Places, count: int, key: int) -> Numbers:
    """Map each position below `count` to its place in a pseudorandom permutation of 0 to count - 1.

    A balanced Feistel network over the next even number of bits; results past `count` are mapped again until they fall
    inside (cycle walking; Black, Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002).
    """
    half = max(1, ((max(2, count) - 1).bit_length() + 1) // 2)
    out = _feistel_once(positions, half, key)
    outside = np.flatnonzero(out >= count)
    while len(outside):
        out[outside] = _feistel_once(out[outside], half, key)
        outside = outside[out[outside] >= count]
    return out.astype(np.int64)


def _feistel_once(values: Places, half: int, key: int) -> Places:
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for round_ in range(_FEISTEL_ROUNDS):
        scrambled = mix(right * np.uint64(GOLDEN) + np.uint64(stream(round_, key))) & mask
        left, right = right, left ^ scrambled
    return left << shift | right


def stream(*parts: int) -> int:
    """Fold integers into one 64-bit key; the first one says what for."""
    key = 0
    for part in parts:
        key = _mix_int((key + (part & _WORD) + GOLDEN) & _WORD)
    return key


def _mix_int(value: int) -> int:
    value = ((value ^ value >> 30) * _MIX_1) & _WORD
    value = ((value ^ value >> 27) * _MIX_2) & _WORD
    return value ^ value >> 31


def mix(values: Places) -> Places:
    """Scramble each value: the finalizer of splitmix64."""
    out = values >> np.uint64(30)
    out ^= values
    out *= np.uint64(_MIX_1)
    out ^= out >> np.uint64(27)
    out *= np.uint64(_MIX_2)
    out ^= out >> np.uint64(31)
    return out


def sample_key(seed: int, epoch: int, number: int) -> int:
    """Return the key of the random generator of one record in one epoch."""
    return stream(_SAMPLE, seed, epoch, number)


def image_draws(seed: int, epoch: int, numbers: Places, count: int) -> npt.NDArray[np.float64]:
    """Return (records, count) uniform numbers in [0, 1) for the images of records, by their numbers, in one epoch."""
    keys = mix(numbers + np.uint64((stream(_IMAGE, seed, epoch) + GOLDEN) & _WORD))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return (mix(keys[:, None] + steps) >> np.uint64(11)) * np.float64(2**-53)
