"""Run the command line."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import NoReturn

import click

from datafeed import __version__
from datafeed.commands.terminal import safe
from datafeed.errors import (
    ConfigError,
    CorruptData,
    DatafeedError,
    DatasetNotFound,
    MissingExtra,
    OutputError,
    RemoteError,
    SchemaError,
    ShardMissing,
    SourceError,
)

# Imported when asked for. Each module is light itself and imports what it runs inside its command.
_COMMANDS = {
    "convert": "datafeed.commands.convert",
    "sources": "datafeed.commands.sources",
    "map": "datafeed.commands.map",
    "merge": "datafeed.commands.merge",
    "info": "datafeed.commands.info",
    "head": "datafeed.commands.head",
    "verify": "datafeed.commands.verify",
    "index": "datafeed.commands.index",
    "cat": "datafeed.commands.cat",
    "export": "datafeed.commands.export",
    "cache": "datafeed.commands.cache",
    "chaos": "datafeed.commands.chaos",
    "demo": "datafeed.commands.demo",
}

_EXIT_CODES: tuple[tuple[tuple[type[DatafeedError], ...], int], ...] = (
    ((ConfigError, MissingExtra), 2),
    ((SourceError, SchemaError, DatasetNotFound), 3),
    ((OutputError,), 4),
    ((CorruptData, ShardMissing), 5),
    ((RemoteError,), 6),
)
_INTERRUPTED = 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of standard output: elsewhere it is an OutputFull


class _Commands(click.Group):
    """Import commands when they are asked for, and turn errors into a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as exc:
            _tell(exc)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (DatafeedError, click.UsageError) as exc:
            if ctx.params["debug"]:
                raise
            _tell(exc)
        except KeyboardInterrupt:
            if ctx.params["debug"]:
                raise
            _fail("interrupted", _INTERRUPTED)
        except BrokenPipeError:
            # Whoever read the output, such as `head`, has had enough.
            _drop_output()
            ctx.exit(0)
        except OSError as exc:
            if ctx.params["debug"] or exc.errno not in _NO_ROOM:
                raise
            _drop_output()
            _fail(f"standard output cannot be written: {exc.strerror}; free some, or send it elsewhere", 4)


def exit_code(error: DatafeedError) -> int:
    """Return the exit code that stands for an error."""
    return next((code for kinds, code in _EXIT_CODES if isinstance(error, kinds)), 1)


def _drop_output() -> None:
    """Forget what could not be written, or Python would complain once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, code: int) -> NoReturn:
    click.echo(f"error: {safe(text)}", err=True)
    sys.exit(code)


def _tell(error: DatafeedError | click.UsageError) -> NoReturn:
    """Say in one line what is wrong, and exit; without any argument, click shows the help instead."""
    if isinstance(error, DatafeedError):
        _fail(str(error), exit_code(error))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        raise error
    command = error.ctx.command_path if error.ctx else "datafeed"
    text = " ".join(error.format_message().split()).rstrip(".")
    _fail(f"{text}: see `{command} --help`", error.exit_code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="datafeed")
@click.option("--debug", is_flag=True, envvar="DATAFEED_DEBUG", help="Show the traceback of an error.")
def main(*, debug: bool) -> None:
    """Turn raw data sets into shards, and look at them.

    A dataset is a directory of shards, local or anywhere that fsspec reaches:

    \b
        datafeed convert photos/ /data/photos
        datafeed info /data/photos
        datafeed verify /data/photos

    Results go to standard output, progress and errors to standard error. An error is one line. Exit codes:

    \b
        0    done
        1    an unexpected error, or a demo that failed
        2    wrong usage, options or environment
        3    what should be read is missing, empty or not as expected
        4    the destination cannot be written, is full, locked, or holds something else
        5    a dataset or a cache is damaged
        6    a server of objects refuses, is not reachable, or answers wrongly
        130  interrupted
    """
