"""Draw what becomes of the members of tars from the first samples.

An ending tells the form, of its last part where it has dots, and the first members confirm it. cls, cls2, class, count,
id, index, inx: int64 where all are integers of 64 bits without leading zeros, else text. txt, text, transcript: utf8
where all are UTF-8. json, jsn: their text where all are JSON. npy: the array. Anything else, and what is not confirmed,
is bytes; those that all are images have that media. Pickles are bytes, too: nothing unpickles them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.tar_fields import Field, Form, dtype_of, fits, npy_header
from datafeed.converters.tar_samples import TarSample
from datafeed.errors import ConfigError, SourceError
from datafeed.infer import image_media
from datafeed.schema import Shape, stored
from datafeed.sizes import counted, some

KEY = "key"
_MOST_ENDINGS = 100
_INTEGERS = frozenset(["cls", "cls2", "class", "count", "id", "index", "inx"])
_TEXTS = frozenset(["txt", "text", "transcript"])
_JSON = frozenset(["json", "jsn"])


def fields_of(samples: Iterable[TarSample], asked: SourceOptions, where: str) -> tuple[Field, ...] | None:
    """Return what becomes of the members, by ending, in the order in which samples have them.

    Args:
        samples: The first ones.
        asked: How they are read; `columns` and `int64_lists` count here.
        where: What a person calls the tars.

    Returns:
        The fields; None where there is no sample.

    Raises:
        SourceError: They hold what no feature can.
        ConfigError: A feature is asked for that they lack.
    """
    seen: dict[str, _Seen] = {}
    count = 0
    for sample in samples:
        count += 1
        for ending, data in sample.parts.items():
            known = seen.setdefault(ending, _Seen(ending))
            if not asked.columns or ending in asked.columns:
                known.add(data, where)
    if not count:
        return None
    _check_endings(seen, asked, f"{where}: ", count)
    return tuple(
        known.field(optional=known.count < count, int64_lists=asked.int64_lists)
        for known in seen.values()
        if known.count
    )


def _check_endings(seen: Mapping[str, object], asked: SourceOptions, where: str, count: int) -> None:
    names = [shown(name) for name in seen]
    lacking = [name for name in asked.columns if name not in seen and name != KEY]
    if lacking:
        raise ConfigError(f"columns: no feature {lacking[0]!r}; there are {some([KEY, *names], 20)}")
    if KEY in seen and (not asked.columns or KEY in asked.columns):
        raise SourceError(f"{where}members end in .key, and the sample's own key has that name: rename them")
    if len(seen) > _MOST_ENDINGS:
        raise SourceError(
            f"{where}{len(seen)} endings in the first {counted(count, 'sample')}, such as {some(names)}: all that "
            "follows the first dot of a name is the ending, which names a feature: write tars whose keys have no dots"
        )


@dataclass(slots=True)
class _Seen:
    """Gather what the first members of one ending are.

    Args:
        ending: The ending.
    """

    ending: str
    count: int = 0
    media: set[str] = field(default_factory=set)
    forms: list[Form] = field(default_factory=list)
    arrays: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        last = self.ending.rpartition(".")[2]
        if last in _INTEGERS:
            self.forms += ["int64", "utf8"]
        elif last in _TEXTS:
            self.forms.append("utf8")
        elif last in _JSON:
            self.forms += ["json", "utf8"]
        elif last == "npy":
            self.forms.append("array")

    def add(self, data: bytes, where: str) -> None:
        """Take one more member into account.

        Raises:
            SourceError: It is an array that no feature holds.
        """
        self.count += 1
        self.media.add(image_media(data[:16]))
        if self.forms == ["array"]:
            self._add_array(data, where)
        else:
            self.forms = [form for form in self.forms if fits(form, data)]

    def _add_array(self, data: bytes, where: str) -> None:
        try:
            header = npy_header(data)
        except ValueError:  # a bad item, which reading will come to
            return
        dtype = dtype_of(header)
        if not dtype:
            why = "is a pickle and could run any code" if header.pickled else "no feature holds"
            raise SourceError(
                f"{where}: member .{shown(self.ending)}: an array of dtype {header.dtype}, which {why}: leave it out "
                "(--columns names those to keep)"
            )
        self.arrays[dtype, header.shape] += 1

    def field(self, *, optional: bool, int64_lists: bool) -> Field:
        """Return what its members become."""
        form = self.forms[0] if self.forms else "bytes"
        if form == "array" and self.arrays:
            dtype, shape = self._array()
            return Field(
                stored(self.ending, dtype, shape, optional=optional, int64_lists=int64_lists),
                form,
            )
        if form in {"bytes", "array"}:
            media = "" if "" in self.media else next(iter(self.media)) if len(self.media) == 1 else "image"
            return Field(stored(self.ending, "bytes", media=media, optional=optional), "bytes")
        if form == "int64":
            return Field(stored(self.ending, "int64", optional=optional), form)
        return Field(stored(self.ending, "utf8", media="json" * (form == "json"), optional=optional), form)

    def _array(self) -> tuple[str, Shape]:
        """Return dtype and shape of most arrays: ragged where their first dimensions differ, or are 0."""
        kinds = Counter[tuple[str, int, tuple[int, ...]]]()
        for (dtype, shape), count in self.arrays.items():
            kinds[dtype, len(shape), shape[1:]] += count
        (dtype, axes, rest), _ = kinds.most_common(1)[0]
        firsts = {
            shape[0] for kind, shape in self.arrays if (kind, len(shape), shape[1:]) == (dtype, axes, rest) and axes
        }
        if not axes:
            return dtype, ()
        return dtype, (firsts.pop() if len(firsts) == 1 and firsts != {0} else None, *rest)
