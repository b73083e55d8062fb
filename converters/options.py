"""Hold what a person may tell a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from datafeed.errors import ConfigError
from datafeed.schema import DTYPES


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Say how a raw data set is read.

    Args:
        types: The dtype of columns by name, for text formats, in place of the one inferred.
        shuffle: Whether sources of single files are shuffled once, when they are listed.
        seed: Chooses that order.
        int64_lists: Whether integer arrays keep the plain TensorFlow form.

    Raises:
        ConfigError: A dtype is unknown.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    shuffle: bool = True
    seed: int = 0
    int64_lists: bool = False

    def __post_init__(self) -> None:
        for name, dtype in self.types.items():
            if dtype not in DTYPES:
                raise ConfigError(f"types: column {name!r}: unknown type {dtype!r}; there are {', '.join(DTYPES)}")
