"""Write the generated parts of the README anew: `PYTHONPATH=. python tests/readme_help.py`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import tiny
from click.testing import CliRunner

from datafeed.cli import main

README = Path(__file__).parents[1] / "README.md"
_WIDTH = 92


def renewed(text: str) -> str:
    """Return the README's text with the parts that are generated as they are now."""
    text = _replaced(text, r"(?<=\n## Command line\n\n).*?(?=\n## )", help_section())
    with tempfile.TemporaryDirectory() as folder:
        tiny.write_dataset(folder, shards=1, blocks=1, records=2)
        text = _replaced(text, r"(?<=\n```hex\n).*?(?=```\n)", _dump(Path(folder)))
        return _replaced(text, r"(?<=\n```json\n).*?(?=```\n)", Path(folder, "dataset.json").read_text())


def _replaced(text: str, pattern: str, part: str) -> str:
    new, count = re.subn(pattern, lambda _: part, text, flags=re.DOTALL)
    assert count == 1, f"{pattern} stands {count} times in the README"
    return new


def help_section() -> str:
    """Return the help of every command, each in a fenced block."""
    parts = []
    for command in _commands(main, []):
        shown = CliRunner().invoke(main, [*command, "--help"], prog_name="datafeed", terminal_width=_WIDTH)
        assert shown.exit_code == 0, shown.output
        parts.append(f"```console\n$ {' '.join(['datafeed', *command, '--help'])}\n{shown.output}```\n")
    return "\n".join(parts)


def _commands(group: click.Command, path: list[str]) -> Iterator[list[str]]:
    """Give the names of a command and of those below it, each with those above."""
    yield path
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from _commands(command, [*path, name])


def _dump(folder: Path) -> str:
    """Return the bytes of the dataset's binary files with what they mean."""
    shard = (folder / "shard-000000.tfrecord.zst").read_bytes()
    index = (folder / "blocks.idx").read_bytes()
    end = len(shard) - 41
    frame, footer = shard[: _footer_start(shard)], shard[_footer_start(shard) : end]
    length = int.from_bytes(footer[16:20], "little")
    rows = [
        (4, "zstd magic"),
        (2, "descriptor: content size in 1 byte, checksum; content size 104"),
        (len(frame) - 10, "two framed records, compressed"),
        (4, "low 32 bits of XXH64 of the 104 raw bytes"),
        (4, "skippable frame: footer"),
        (4, f"{len(footer) - 8} bytes follow"),
        (4, "DFSF"),
        (4, "version 1"),
        (4, f"{length} bytes of JSON"),
        (length, ""),
        (4, "1 block"),
        (4, "2 records"),
        (32, "SHA-256 of all before the footer"),
        (4, "CRC32C from DFSF on"),
        (4, "skippable frame: seek table"),
        (4, "33 bytes follow"),
        (12, "the block: 80 bytes stored, 104 raw, checksum"),
        (12, "the footer: stored, nothing raw, checksum of nothing"),
        (9, "2 entries, descriptor, seekable magic"),
    ]
    table = [
        (8, "DFBLKIDX"),
        (8, "version 1, 1 shard"),
        (16, "dataset id"),
        (16, "part at byte 52, 29 bytes, 1 block"),
        (4, "CRC32C of all before"),
        (len(index) - 52, "zstd frame: u32 80, 104, 2, checksum"),
    ]
    return "\n".join(["shard-000000.tfrecord.zst", *_lines(shard, rows), "", "blocks.idx", *_lines(index, table), ""])


def _footer_start(shard: bytes) -> int:
    return shard.index(bytes.fromhex("5d2a4d18"))


def _lines(data: bytes, rows: list[tuple[int, str]]) -> Iterator[str]:
    start = 0
    for nbytes, what in rows:
        for at in range(start, start + nbytes, 16 if what else 88):
            part = data[at : min(at + (16 if what else 88), start + nbytes)]
            note = what if at == start else ""
            yield f"{at:04x}  {part.hex(' '):<47}  {note}".rstrip() if what else f"{at:04x}  {part.decode()}"
        start += nbytes
    assert start == len(data), f"{start} bytes are described, there are {len(data)}"


if __name__ == "__main__":
    README.write_text(renewed(README.read_text()))
