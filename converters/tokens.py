"""Turn text into token ids, by a tokenizer as Hugging Face's tokenizers writes it.

Ids are those that the tokenizer gives a text by itself: what its post-processor would add around a text is left out,
its truncation, padding and dropout are off, and added tokens that are written out in a text count as such.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from datafeed.columns import Array
from datafeed.converters.files import Files
from datafeed.converters.names import shown
from datafeed.errors import ConfigError, MissingExtra, SourceError
from datafeed.sizes import format_size, some

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ENDS = (
    "<|endoftext|>",
    "</s>",
    "[SEP]",
    "<eos>",
    "<|end_of_text|>",
    "<|eos|>",
    "[EOS]",
    "<EOS>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""Tokens that end a text, in the order in which they are looked for."""

_HEAD_NBYTES = 4096
_MOST_NBYTES = 2**28  # the largest of a model in use has 33 MB
_PIECE_CHARS = 2**20  # encoded at once: until it is done the library holds 100 bytes for each
_LOOK_CHARS = 4096
_GAP = re.compile(r"\S (?=\S)")
_UNKNOWN = "datafeed: no token"  # of no vocabulary, so that the library refuses what it would leave out
_DTYPES = ("uint8", "uint16", "uint32")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Encode text. Instances are picklable and hold the tokenizer's file, so that a worker needs no path to it.

    Args:
        data: The file.
        dtype: The smallest that holds every id.
        end: The token that ends a document, and its id; None for none.
    """

    data: bytes = field(repr=False)
    dtype: str
    end: tuple[str, int] | None

    def provenance(self) -> dict[str, object]:
        """Return what tells the tokenizer, as JSON values: ids may differ between versions of the library."""
        import tokenizers

        found = {"tokenizer_sha256": hashlib.sha256(self.data).hexdigest(), "tokenizers": tokenizers.__version__}
        return {**found, "separator": self.end[0] if self.end else ""}

    def encode(self, text: str) -> Array:
        """Return a document's ids, its end with them.

        A text of more than 2**20 characters is encoded in pieces that are cut before a space; there an id may differ
        from those of the whole.

        Raises:
            ValueError: The text holds what the tokenizer has no id for; the message says so.
        """
        tokenizer = _parsed(self.data)
        parts: list[Array] = []
        try:
            for piece in _pieces(text):
                # One text a call: of a batch, the library would give each core a share, and a worker has one.
                found = tokenizer.encode_batch_fast([piece], add_special_tokens=False)[0]
                parts.append(np.array(found.ids, self.dtype))
        except Exception as exc:  # the library raises nothing narrower
            raise ValueError(_reason(text, exc)) from exc
        return np.concatenate([*parts, np.array([self.end[1]] if self.end else [], self.dtype)])


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PIECE_CHARS:
        end = start + _PIECE_CHARS
        gaps = [gap.start() + 1 for gap in _GAP.finditer(text, max(start, end - _LOOK_CHARS), end)]
        end = gaps[-1] if gaps else end
        yield text[start:end]
        start = end
    yield text[start:]


def _reason(text: str, error: Exception) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "it holds half of a surrogate pair, which has no UTF-8 form"
    why = "" if _UNKNOWN in str(error) else f" ({error})"
    return f"it holds a character that the tokenizer has no token for, and no unknown token either{why}"


@lru_cache(maxsize=1)  # a task encodes for ten seconds; to load 128,000 tokens takes one
def _parsed(data: bytes) -> Tokenizer:
    from tokenizers import Tokenizer, models

    _keep_to_one_core()
    tokenizer = Tokenizer.from_buffer(data)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if isinstance(tokenizer.model, models.BPE):
        tokenizer.model.dropout = None
        if tokenizer.model.unk_token is None:
            tokenizer.model.unk_token = _UNKNOWN
    return tokenizer


def _keep_to_one_core() -> None:
    """In a worker of Ray's, keep the library from starting a thread per core; elsewhere nothing is touched."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def read_tokens(files: Files, path: str, separator: str | None) -> Tokens:
    """Read a tokenizer.

    Args:
        files: What reaches its file.
        path: The file.
        separator: The token that ends a document; None for the first of `ENDS` that it has, empty for none.

    Raises:
        MissingExtra: tokenizers is not installed.
        ConfigError: There is no such file, it is no tokenizer, or it has no such token.
    """
    try:
        import tokenizers  # noqa: F401
    except ImportError as exc:
        raise MissingExtra("tokenizers", "text", "to turn text into token ids") from exc
    data = _read(files, path)
    try:
        tokenizer = _parsed(data)
    except Exception as exc:  # the library raises nothing narrower
        raise ConfigError(f"tokenizer: {shown(path)} {_other(data)}; {_WANTED}: {exc}") from exc
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    if not ids:
        raise ConfigError(f"tokenizer: {shown(path)} holds no token: was it trained?")
    dtype = next(dtype for dtype in _DTYPES if max(ids) <= np.iinfo(dtype).max)
    return Tokens(data, dtype, _end(tokenizer, path, separator))


_WANTED = (
    "expected a tokenizer.json, as tokenizers' Tokenizer.save or transformers' AutoTokenizer.save_pretrained writes"
)


def _read(files: Files, path: str) -> bytes:
    try:
        if files.is_folder(path):
            raise ConfigError(f"tokenizer: {shown(path)} is a folder; {_WANTED}: name the file in it")
        file = files.stamp(path)
        head = files.head(path, _HEAD_NBYTES)
        if not head.lstrip().startswith(b"{"):
            raise ConfigError(f"tokenizer: {shown(path)} {_other(head)}; {_WANTED}")
        if file.nbytes > _MOST_NBYTES:
            raise ConfigError(f"tokenizer: {shown(path)} has {format_size(file.nbytes)}; {_WANTED}")
        return files.read(file)
    except (SourceError, OSError) as exc:
        raise ConfigError(f"tokenizer: {shown(path)} cannot be read: {exc}; {_WANTED}") from exc


_LOOKS = (
    (rb"\Z", "is empty"),
    (rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n", "looks like tiktoken's ranks"),
    (rb"(?s)\n.{,40}<unk>", "looks like a model of sentencepiece"),
    (rb"#version|\S+ \S+\r?\n", "looks like the merges of a BPE, which are half of one"),
    (rb"\s*[^\s{]", "is no JSON object"),
)


def _other(data: bytes) -> str:
    """Say what a file looks like that is no tokenizer."""
    for pattern, looks in _LOOKS:
        if re.match(pattern, data):
            return looks
    try:
        found = json.loads(data)
    except ValueError as exc:
        return f"is no whole JSON ({exc})"
    if "model" in found:
        return "is no tokenizer that this version of tokenizers can read"
    vocabulary = found and all(isinstance(value, int) for value in found.values())
    return "looks like a vocabulary alone" if vocabulary else "is JSON without a model, such as a configuration"


def _end(tokenizer: Tokenizer, path: str, separator: str | None) -> tuple[str, int] | None:
    if separator == "":
        return None
    if separator is not None:
        number = tokenizer.token_to_id(separator)
        if number is None:
            raise ConfigError(f"separator: {shown(path)} has no token {separator!r}{_special(tokenizer)}")
        return separator, number
    added = {token.content: number for number, token in tokenizer.get_added_tokens_decoder().items()}
    found = next(((end, added[end]) for end in ENDS if end in added), None)
    if found is None:
        raise ConfigError(
            f"separator: {shown(path)} has none of the usual tokens that end a text{_special(tokenizer)}: say it with "
            "--separator TOKEN, empty for none"
        )
    return found


def _special(tokenizer: Tokenizer) -> str:
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return f"; its added tokens are {some(added)}" if added else ""
