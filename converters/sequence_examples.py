"""Turn tf.train.SequenceExample records into tf.train.Example records.

A feature list becomes a ragged feature, its steps' values end to end. All steps must hold the same number of values:
one makes the shape (None,), k numbers (None, k). A list that shares its name with a context feature is named NAME.list.
Such records parse as any Example. A record with a context alone has the bytes of an Example and is read as one: its
lists are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datafeed._native import masked_crc32c
from datafeed.converters.examples import Places
from datafeed.converters.record_pieces import Piece
from datafeed.converters.sequence_wire import FIRST, KINDS, SECOND, Steps, encoded, names_of, split, steps_of
from datafeed.converters.source import OnBad
from datafeed.errors import SchemaError, SourceError
from datafeed.schema import Feature

_NO_CHECKSUM = bytes(4)  # of the data: that of the original is checked before


@dataclass(frozen=True, slots=True)
class FeatureList:
    """Describe a feature list.

    Args:
        name: Its name as a feature.
        kind: The key of its steps' kind.
        width: How many values each step holds.
    """

    name: str
    kind: int
    width: int


Lists = Mapping[str, FeatureList | None]
"""By their names in the records; None for one that is left out."""


@dataclass(slots=True)
class _Seen:
    """Hold what the records so far say of one feature list."""

    kinds: Counter[int] = field(default_factory=Counter)
    widths: Counter[frozenset[int]] = field(default_factory=Counter)


def draw_lists(records: Sequence[memoryview], columns: Sequence[str], where: str) -> Lists:
    """Draw the feature lists from records; those without any step are left out, as features without a kind are.

    Args:
        records: The first records of a data set; what is no SequenceExample is passed over.
        columns: The features that are wanted; none for all. A list that is not wanted may be of any form.
        where: The data set, as it is shown.

    Returns:
        The lists; none where the records are tf.train.Examples.

    Raises:
        SourceError: A list that is wanted cannot become a feature.
    """
    seen: dict[str, _Seen] = {}
    names: set[str] = set()
    for record in map(bytes, records):
        try:
            names |= _look(record, seen)
        except SchemaError:
            continue
    held = {name: known for name, known in sorted(seen.items()) if known.widths}
    lists: dict[str, FeatureList | None] = {}
    for name, known in held.items():
        public = f"{name}.list" if name in names else name
        if columns and public not in columns:
            lists[name] = None
            continue
        if public != name and (public in names or public in held):
            raise SourceError(
                f"{where}: a context feature and a feature list are both named {name!r}, and {public!r}, which the "
                "list would be named, is taken: rename one of them"
            )
        lists[name] = _list(public, name, known, where)
    return lists


def _look(record: bytes, seen: dict[str, _Seen]) -> set[str]:
    """Note the lists of a record, and return the names of its context."""
    context, spans = split(record)
    names = names_of(context)
    found = {name: steps_of(record, span) for name, span in spans.items()}
    for name, steps in found.items():
        known = seen.setdefault(name, _Seen())
        known.kinds.update(steps.kinds)
        if steps.kinds:
            known.widths[steps.widths if len(steps.kinds) == 1 else frozenset()] += 1
    return names


def _list(public: str, name: str, known: _Seen, where: str) -> FeatureList:
    """Describe a list as the steps of most records have it."""
    widths, count = max(known.widths.items(), key=lambda item: (item[1], sorted(item[0])))
    kind = max(known.kinds, key=lambda kind: known.kinds[kind])
    fits = len(widths) == 1 and 2 * count > known.widths.total()
    if not fits or not (widths <= {1} or (0 not in widths and KINDS[kind] != "bytes")):
        different = sorted(frozenset.union(*known.widths))
        found = f"hold {_shown(different)} values" if different else "are lists of two kinds"
        raise SourceError(
            f"{where}: the steps of the feature list {name!r} {found}; a feature can hold steps of one number or text "
            "each, or of equally many numbers: choose other features with --columns, or convert with a function of "
            "your own"
        )
    return FeatureList(public, kind, max(widths))


def _shown(widths: Sequence[int]) -> str:
    few = [f"{width:,}" for width in (widths if len(widths) <= 3 else [*widths[:2], widths[-1]])]
    return f"{', '.join(few[:-1])} or {few[-1]}" if few[1:] else few[0]


def with_shapes(features: Sequence[Feature], lists: Lists) -> tuple[Feature, ...]:
    """Give the features that are lists their shapes."""
    widths = {known.name: known.width for known in lists.values() if known is not None}
    return tuple(_with_shape(feature, widths.get(feature.name)) for feature in features)


def _with_shape(feature: Feature, width: int | None) -> Feature:
    if width is None:
        return feature
    return replace(feature, shape=(None,) if width == 1 else (None, width), media="")


def examples_of(records: Sequence[memoryview], lists: Lists) -> list[memoryview]:
    """Return records as Examples, without those that do not fit."""
    found = []
    for record in records:
        try:
            found.append(memoryview(_example(bytes(record), lists)))
        except SchemaError:
            continue
    return found


def as_examples(places: Places, rows: Sequence[int], lists: Lists, on_bad: OnBad) -> tuple[Places, Sequence[int]]:
    """Turn the records of a piece into Examples.

    Args:
        places: The piece, and where it comes from.
        rows: Those of its rows that are wanted.
        lists: The feature lists.
        on_bad: Takes those that do not fit.

    Returns:
        The same places, with the Examples to be parsed, then the rows that are left.
    """
    framed = [b""] * len(places.piece)
    kept = []
    for row in rows:
        try:
            framed[row] = _example(bytes(places.piece.payload(row)), lists)
        except SchemaError as exc:
            on_bad(places.item(row, str(exc)))
            continue
        kept.append(row)
    return replace(places, parsed=_piece(framed)), kept


def _piece(records: Sequence[bytes]) -> Piece:
    starts, parts = [0], []
    for record in records:
        size = len(record).to_bytes(8, "little")
        parts += [size, masked_crc32c(size).to_bytes(4, "little"), record, _NO_CHECKSUM]
        starts.append(starts[-1] + len(record) + 16)
    return Piece(memoryview(b"".join(parts)), starts, 0, 0)


def _example(record: bytes, lists: Lists) -> bytes:
    context, spans = split(record)
    entries = b"".join(_entries(record, context, spans, lists))
    return encoded(FIRST, context + entries)


def _entries(record: bytes, context: bytes, spans: Mapping[str, tuple[int, int]], lists: Lists) -> Iterator[bytes]:
    """Yield the lists of a record as entries of a Features message."""
    for name, span in spans.items():
        if name in lists and lists[name] is None:
            continue
        steps = steps_of(record, span)
        known = lists.get(name)
        if known is None:
            if steps.kinds:
                raise SchemaError("it is a feature list, which the first records lack", feature=name)
            continue
        _check(name, steps, known)
        key = encoded(FIRST, known.name.encode())
        if key in context and known.name in names_of(context):
            raise SchemaError(
                "it is a feature list in the first records, and a context feature here", feature=known.name
            )
        yield encoded(FIRST, key + encoded(SECOND, _feature(steps, known)))


def _check(name: str, steps: Steps, known: FeatureList) -> None:
    if len(steps.kinds) > 1:
        names = sorted(KINDS[kind] for kind in steps.kinds)
        raise SchemaError(f"its steps are {' and '.join(names)} lists", feature=name)
    if steps.widths - {known.width}:
        raise SchemaError(
            f"expected {known.width:,} in each step, as in the first records, found {_shown(sorted(steps.widths))}",
            feature=name,
        )


def _feature(steps: Steps, known: FeatureList) -> bytes:
    """Return a Feature; a list without steps has the kind that it has in the first records."""
    kind = next(iter(steps.kinds), known.kind)
    if KINDS[kind] == "bytes" or not steps.values:
        return encoded(kind, steps.values)
    return encoded(kind, encoded(FIRST, steps.values))
