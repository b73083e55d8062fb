"""Train small tokenizers with Hugging Face's own library."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = (
    "the quick brown fox jumps over the lazy dog",
    "pack my box with five dozen liquor jugs",
    "é ü 日本 🦙 $ 12 34",
)


@cache
def byte_level(*special: str) -> Tokenizer:
    """Return a byte-level BPE of 300 tokens; special ones come first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def saved(path: Path, tokenizer: Tokenizer | None = None) -> str:
    """Save a tokenizer, one with an end of text by default; return its path."""
    (tokenizer or byte_level("<|endoftext|>")).save(str(path))
    return str(path)


def ids_of(text: str, tokenizer: Tokenizer | None = None) -> list[int]:
    """Return what the library makes of a text."""
    return list((tokenizer or byte_level("<|endoftext|>")).encode(text, add_special_tokens=False).ids)
