"""Choose features of a source, rename them, or name its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from datafeed.converters.over import Over
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.errors import ConfigError
from datafeed.schema import Feature, Schema


@dataclass(frozen=True)
class Selected(Over):
    """Offer some features of a source, perhaps under other names.

    Args:
        inner: The source.
        columns: The features wanted, in this order, by the source's names; none for all.
        rename: New names by the source's.
        key: The feature, by its new name, whose value names a sample.
    """

    inner: Source
    columns: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None

    def schema(self) -> Schema:
        """Return the features that are left.

        Raises:
            ConfigError: A name is not there, two features would share one, or the key cannot name samples.
            SourceError: The source cannot be read, or it is empty.
        """
        found = {feature.name: feature for feature in self.inner.schema()}
        wanted = self.columns or tuple(found)
        for option, names in (("columns", wanted), ("rename", self.rename)):
            lacking = [name for name in names if name not in found]
            if lacking:
                raise ConfigError(f"{option}: no feature {lacking[0]!r}; there are {', '.join(found)}")
        if not all(self.rename.values()):
            nameless = next(old for old, new in self.rename.items() if not new)
            raise ConfigError(f"rename: expected a new name of {nameless!r}, found none: leave it out with columns")
        features = [replace(found[name], name=self.rename.get(name, name)) for name in wanted]
        new = [feature.name for feature in features]
        twice = [name for name in new if new.count(name) > 1]
        if twice:
            raise ConfigError(f"columns, rename: two features would be named {twice[0]!r}: give one another name")
        if self.key is not None:
            _check_key(self.key, {feature.name: feature for feature in features})
        return Schema(features)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit of the source."""
        for chunk in self.inner.read(unit, on_bad):
            wanted = self.columns or tuple(chunk.columns)
            columns = {self.rename.get(name, name): chunk.columns[name] for name in wanted}
            yield replace(chunk, columns=columns)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        own = {"columns": list(self.columns), "rename": dict(self.rename), "key": self.key}
        return {**self.inner.options(), **{name: value for name, value in own.items() if value}}


def _check_key(key: str, features: Mapping[str, Feature]) -> None:
    if key not in features:
        raise ConfigError(f"key: no feature {key!r}; there are {', '.join(features)}")
    feature = features[key]
    integer = feature.numeric and feature.numpy_dtype.kind in "iu"
    if feature.shape or feature.optional or not (integer or feature.dtype in {"utf8", "bytes"}) or feature.is_image:
        raise ConfigError(f"key: {key!r} must be one text or integer that no sample lacks, found {feature.to_json()}")
