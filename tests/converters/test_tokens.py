"""Test turning text into token ids."""

from __future__ import annotations

import gzip
import pickle
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizer import byte_level, ids_of, saved
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from datafeed.converters import tokens
from datafeed.converters.files import Files
from datafeed.converters.tokens import ENDS, Tokens, read_tokens
from datafeed.errors import ConfigError, MissingExtra


def opened(tmp_path: Path, tokenizer: Tokenizer | None = None, separator: str | None = "") -> Tokens:
    """Save a tokenizer and read it."""
    return read_tokens(Files(), saved(tmp_path / "tokenizer.json", tokenizer), separator)


def words(*vocabulary: str, unknown: str = "<unk>") -> Tokenizer:
    """Return a tokenizer of whole words."""
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(vocabulary)}, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_ids_are_those_of_the_library(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """With the separator behind them; a copy in another process gives the same."""
    found = opened(tmp_path_factory.mktemp("tokens"), None, "<|endoftext|>")
    copy = pickle.loads(pickle.dumps(found))  # noqa: S301  (its own)
    assert found.encode(text).tolist() == copy.encode(text).tolist() == [*ids_of(text), 0]


def test_an_added_token_in_a_text_counts_as_such(tmp_path: Path) -> None:
    """As the library has it: prepared conversations rely on it."""
    assert opened(tmp_path).encode("fox<|endoftext|>fox").tolist() == [*ids_of("fox"), 0, *ids_of("fox")]


def test_what_a_file_would_do_to_a_text_beside_encoding_is_off(tmp_path: Path) -> None:
    """No id is cut off, padded to a length, dropped at random or put around a text."""
    tokenizer = Tokenizer.from_str(byte_level("</s>").to_str())
    tokenizer.post_processor = processors.TemplateProcessing("</s> $A </s>", None, [("</s>", 0)])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    tokenizer.model.dropout = 1.0
    text = "the quick brown fox"
    assert opened(tmp_path, tokenizer).encode(text).tolist() == ids_of(text, byte_level("</s>"))


@pytest.mark.parametrize(("size", "dtype"), [(256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_f98_ids_have_the_smallest_dtype(tmp_path: Path, size: int, dtype: str) -> None:
    """The last id of the vocabulary comes back, added tokens and gaps counted."""
    tokenizer = words(*map(str, range(size - 1)))
    tokenizer.add_special_tokens(["</s>"])
    found = opened(tmp_path, tokenizer, None)
    assert found.dtype == found.encode("0").dtype == dtype
    assert found.encode("0").tolist() == [0, size - 1]
    gap = Tokenizer(models.WordLevel({"a": size - 1}, "a"))
    assert opened(tmp_path, gap).dtype == dtype


@pytest.mark.parametrize("piece", [1, 7, 50])
def test_a_long_text_is_encoded_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Cut before a space where there is one, it has the ids of the whole; elsewhere no character is lost."""
    monkeypatch.setattr(tokens, "_PIECE_CHARS", piece)
    text = "the quick brown  fox\n jumps over " * 9 + "日本" * 30
    found = opened(tmp_path).encode(text).tolist()
    assert byte_level("<|endoftext|>").decode(found) == text
    spaced = "the five foxes " * 20
    assert piece < 50 or opened(tmp_path).encode(spaced).tolist() == ids_of(spaced)


def no_unknown(kind: str) -> Tokenizer:
    """Return a tokenizer that cannot encode whatever it is given."""
    if kind == "words":
        return words("fox", unknown="<unk>")
    if kind == "unigram":
        return Tokenizer(models.Unigram([("fox", 0.0), ("f", -9.0), ("o", -9.0), ("x", -9.0)]))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(["fox"] * 3, trainers.BpeTrainer(show_progress=False))
    return tokenizer


@pytest.mark.parametrize("kind", ["bpe", "words", "unigram"])
def test_what_a_tokenizer_has_no_token_for_is_an_error(tmp_path: Path, kind: str) -> None:
    """Also for a BPE, whose library would leave it out."""
    found = opened(tmp_path, no_unknown(kind))
    assert len(found.encode("fox")) == 1
    for _ in range(2):  # the library keeps words that it saw
        with pytest.raises(ValueError, match="a character that the tokenizer has no token for"):
            found.encode("dog")


def test_a_lone_surrogate_is_an_error(tmp_path: Path) -> None:
    """It is named for what it is."""
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        opened(tmp_path).encode("fox \ud800")


@pytest.mark.parametrize("end", ENDS)
def test_the_end_is_found_among_the_added_tokens(tmp_path: Path, end: str) -> None:
    """An earlier one of the list wins."""
    assert opened(tmp_path, byte_level("<pad>", end), None).end == (end, 1)
    assert opened(tmp_path, byte_level(end, "<|endoftext|>"), None).end in {("<|endoftext|>", 0), ("<|endoftext|>", 1)}


def test_a_separator_must_be_a_token(tmp_path: Path) -> None:
    """What is there is named; none at all must be asked for."""
    path = saved(tmp_path / "t.json", byte_level("<pad>"))
    with pytest.raises(ConfigError, match=r"no token '<end>'; its added tokens are <pad>"):
        read_tokens(Files(), path, "<end>")
    with pytest.raises(ConfigError, match=r"none of the usual tokens.*<pad>: say it with --separator TOKEN, empty for"):
        read_tokens(Files(), path, None)
    assert read_tokens(Files(), path, "<pad>").end == ("<pad>", 0)
    assert read_tokens(Files(), path, "").end is None


@pytest.mark.parametrize(
    ("data", "looks"),
    [
        (b"", "is empty"),
        (b"IQ== 0\nIg== 1\n", "looks like tiktoken's ranks"),
        (b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", "looks like a model of sentencepiece"),
        (b"#version: 0.2\nt h\n", "looks like the merges of a BPE"),
        (b"\xff\xfe\0", "is no JSON object"),
        (b"[1]", "is no JSON object"),
        (b'{"a": 0, "b": 1}', "looks like a vocabulary alone"),
        (b'{"model_type": "gpt2"}', "is JSON without a model, such as a configuration"),
        (b"{}", "is JSON without a model"),
        (b'{"model": {"type": "New"}}', "no tokenizer that this version of tokenizers can read"),
        (byte_level("</s>").to_str().encode()[:2000], "is no whole JSON"),
        (gzip.compress(b"{}"), "is no JSON object"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, data: bytes, looks: str) -> None:
    """By what it looks like, with what is wanted."""
    (tmp_path / "t.json").write_bytes(data)
    with pytest.raises(ConfigError, match=re.escape(looks)) as caught:
        read_tokens(Files(), str(tmp_path / "t.json"), "")
    assert "expected a tokenizer.json" in str(caught.value)


def test_a_tokenizer_must_be_there(tmp_path: Path) -> None:
    """A name of a model's hub is no file, a folder is none either, and one without a token is of no use."""
    with pytest.raises(ConfigError, match=r"tokenizer: gpt2 cannot be read: .*expected a tokenizer.json"):
        read_tokens(Files(), "gpt2", "")
    with pytest.raises(ConfigError, match=r"is a folder; .*name the file in it"):
        read_tokens(Files(), str(tmp_path), "")
    with pytest.raises(ConfigError, match="holds no token"):
        opened(tmp_path, Tokenizer(models.BPE()))


def test_without_the_library_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file is."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match=r"tokenizers is needed to turn text into token ids: .*\[text\]"):
        read_tokens(Files(), str(tmp_path / "t.json"), None)


def test_provenance_tells_tokenizers_apart(tmp_path: Path) -> None:
    """By its bytes, the library's version and the separator."""
    one, other = opened(tmp_path, byte_level("</s>")), opened(tmp_path, byte_level("<pad>"))
    assert one.provenance()["tokenizer_sha256"] != other.provenance()["tokenizer_sha256"]
    assert one.provenance() == opened(tmp_path, byte_level("</s>")).provenance()
    assert opened(tmp_path, byte_level("</s>"), None).provenance()["separator"] == "</s>"
