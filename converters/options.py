"""Hold what a person may tell a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from datafeed.converters.files import Files
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
        storage_options: Passed to the fsspec file system of the URLs that are read.
        columns: Which features are wanted, by the source's names; none for all.
        labels: For images, a file of annotations: csv, tsv or jsonl with a column of file names, or COCO's json.
        tokenizer: For text, a tokenizer as Hugging Face's tokenizers writes it to a json file.
        seq_len: For text, and LitData's chunks of token ids: those of a sample; None for whatever an item has.
        one_document: Whether a sample holds ids of one document alone; otherwise documents are packed end to end.
        separator: The token that ends each document; None for the tokenizer's own end, empty for none.
        tail: What becomes of ids that fill no sample: "keep" them as a shorter one, or "drop" them.
        text: The column that holds the text.

    Raises:
        ConfigError: A dtype is unknown.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    shuffle: bool = True
    seed: int = 0
    int64_lists: bool = False
    storage_options: Mapping[str, object] | None = field(default=None, repr=False)  # it may hold a secret
    columns: tuple[str, ...] = ()
    labels: str | None = None
    tokenizer: str | None = None
    seq_len: int | None = None
    one_document: bool = False
    separator: str | None = None
    tail: Literal["keep", "drop"] = "keep"
    text: str = "text"

    def __post_init__(self) -> None:
        for name, dtype in self.types.items():
            if dtype not in DTYPES:
                raise ConfigError(f"types: column {name!r}: unknown type {dtype!r}; there are {', '.join(DTYPES)}")

    @property
    def files(self) -> Files:
        """What reaches the files."""
        return Files(self.storage_options or {})
