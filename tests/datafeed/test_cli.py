"""Test the command line as a whole: help, errors, exit codes, what it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from click.testing import CliRunner, Result

from datafeed import errors
from datafeed.cli import exit_code, main

HEAVY = ("torch", "pyarrow", "ray", "cv2", "simplejpeg", "sklearn", "rich", "numpy")


def run(*args: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(args), prog_name="datafeed")


def child(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    program = "import sys; from datafeed.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, check=False, timeout=60, **options
    )


@pytest.mark.parametrize("command", ["", "convert", "info", "head", "verify", "index", "cat", "export", "demo"])
def test_help_exits_0_for_each_command(command: str) -> None:
    """Every command says what it does, and shows itself in an example."""
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"      datafeed {command}".rstrip() in result.stdout


def test_help_names_every_exit_code() -> None:
    """What scripts test for is documented."""
    shown = run("--help").stdout
    for code in ("0  ", "1  ", "2  ", "3  ", "4  ", "5  ", "130"):
        assert f"\n      {code}" in shown


def test_an_unknown_command_is_wrong_usage() -> None:
    """A typing error is no traceback."""
    result = run("covnert")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: No such command 'covnert'")


@pytest.mark.parametrize(
    ("args", "said", "command"),
    [
        (["--nope"], "No such option", "datafeed"),
        (["covnert"], "No such command 'covnert'", "datafeed"),
        (["info"], "Missing argument 'URL'", "datafeed info"),
        (["head", "a", "-n", "0"], "Invalid value for '-n': 0 is not in the range x>=1", "datafeed head"),
        (["cat", "a", "--format", "csv"], "Invalid value for '--format'", "datafeed cat"),
        (["verify", "a", "b\nc"], "Got unexpected extra argument", "datafeed verify"),
        (["convert", "a", "b", "--workers", "0"], "Invalid value for '--workers'", "datafeed convert"),
    ],
)
def test_wrong_usage_is_one_line_and_points_to_the_help(args: list[str], said: str, command: str) -> None:
    """As every other error."""
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {said}")
    assert result.stderr.endswith(f": see `{command} --help`\n")
    assert result.stderr.count("\n") == 1


def test_no_argument_shows_the_help() -> None:
    """Somebody who does not know what to type is not told that it is wrong in one line."""
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import datafeed",
        "import datafeed.cli",
        "from datafeed.cli import main; main(['convert', '--help'], standalone_mode=False)",
    ],
)
def test_nothing_heavy_is_imported_when_light(code: str) -> None:
    """The package, the command line and its help start without torch and the optional packages."""
    shown = f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    program = f"import sys\n{code}\n{shown}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "[]\n"


def test_reading_commands_do_without_torch(tmp_path: Path) -> None:
    """Looking at a dataset needs no deep-learning library."""
    tiny.write_dataset(str(tmp_path))
    program = (
        "import sys\nfrom datafeed.cli import main\n"
        f"for args in (['info'], ['head'], ['verify'], ['cat', '-n', '1']):\n"
        f"    main([*args, {str(tmp_path)!r}], standalone_mode=False)\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert done.stderr == b"False\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("x"), 2),
        (errors.StateMismatch("x"), 2),
        (errors.MissingExtra("ray", "ray", "to convert"), 2),
        (errors.SourceNotFound("x"), 3),
        (errors.BadItem("a.csv:3", "x"), 3),
        (errors.SchemaError("x"), 3),
        (errors.DatasetNotFound("x"), 3),
        (errors.OutputFull("x"), 4),
        (errors.OutputLocked("x"), 4),
        (errors.CorruptFrame("x"), 5),
        (errors.ShardMissing("x"), 5),
        (errors.UnsupportedVersion("x"), 5),
        (errors.WorkerLost("x"), 1),
    ],
)
def test_exit_code_tells_what_is_to_blame(error: errors.DatafeedError, code: int) -> None:
    """Usage, source, destination and data have a code each."""
    assert exit_code(error) == code


def test_an_error_is_one_line_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The exit code reaches the shell, standard output stays empty, and there is no traceback."""
    done = child("info", str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"error: no dataset at {tmp_path}/nothing: nothing stands there")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["option", "environment"])
def test_debug_shows_the_traceback(tmp_path: Path, how: str) -> None:
    """Whoever looks for a fault of ours sees where it was raised."""
    args = ["--debug"] if how == "option" else []
    env = {**os.environ, "DATAFEED_DEBUG": "1"} if how == "environment" else None
    done = child(*args, "info", str(tmp_path), env=env)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "DatasetNotFound" in done.stderr


def test_ctrl_c_exits_130(tmp_path: Path) -> None:
    """A person who interrupts gets one line, and a script sees that it was a person."""
    os.mkfifo(tmp_path / "dataset.json")
    program = "import sys; from datafeed.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "info", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    with open(tmp_path / "dataset.json", "wb"):  # returns once the child has opened it to read
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    assert (process.returncode, shown) == (130, "error: interrupted\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="NOT TESTED: there is no /dev/full")
@pytest.mark.parametrize("command", ["info", "cat"])
def test_a_full_standard_output_is_one_line(tmp_path: Path, command: str) -> None:
    """Whether the write fails at once or what is left of it at exit."""
    tiny.write_dataset(str(tmp_path))
    program = "import sys; from datafeed.cli import main; sys.exit(main())"
    with open("/dev/full", "wb") as full:
        args = [sys.executable, "-c", program, command, str(tmp_path)]
        done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, len(lines)) == (4, 1)
    assert lines[0].startswith("error: standard output cannot be written: No space left")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`datafeed cat ... | head` ends in silence."""
    tiny.write_dataset(str(tmp_path), shards=4, blocks=50, records=50)
    program = "import sys; from datafeed.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "cat", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    shown = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), shown) == (0, b"")
