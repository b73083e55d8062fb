"""Run programs on a library that takes seconds to import, in one child process that imports it once."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import selectors
import subprocess
import sys
import tempfile
import traceback
from typing import Self


class Peer:
    """A child that imports a module from the start, and is asked later.

    It ends at `close`, and at the end of this process, however that comes: its standard input is then at its end.
    A Ctrl-C at the terminal does not reach it.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's number."""
        return self._child.pid

    def _start(self) -> None:
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  (`close` closes it)
        self._child = subprocess.Popen(
            [sys.executable, "-P", __file__, self._module],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )

    def run(self, program: str, *arguments: str, timeout_s: float = 120) -> str:
        """Run a program as `python -c` would, with a fresh namespace, and return what it printed.

        A program that fails is an AssertionError with what it wrote to standard error. A child that ended, or that
        did not answer in time, is the failure of the test that finds it; the next test gets a new one.
        """
        if self._child.poll() is not None:
            self.close()
            self._start()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # an ended child is told of below
            print(json.dumps([program, *arguments]), file=self._child.stdin, flush=True)
        with selectors.DefaultSelector() as selector:  # select() itself takes no descriptor past 1023
            selector.register(self._child.stdout, selectors.EVENT_READ)
            answered = selector.select(timeout_s)
        if not answered:
            self._child.kill()
            self._child.wait()
            raise AssertionError(f"{self._module} did not answer within {timeout_s} s: {self._stderr()}")
        reply = self._child.stdout.readline()
        assert reply, f"the process of {self._module} ended, status {self._child.wait()}: {self._stderr()}"
        done, printed = json.loads(reply)
        said = self._stderr()
        assert done, said
        return str(printed)

    def _stderr(self) -> str:
        """Take what the child wrote to standard error since the last time."""
        self._said.seek(0)
        said = self._said.read()
        self._said.seek(0)  # the child writes at the same place: both have one open file
        self._said.truncate()
        return said

    def close(self) -> None:
        """End the child, whatever it does."""
        self._child.kill()
        self._child.communicate()
        self._said.close()


def _serve(module: str) -> None:
    """Answer a line of standard input, a program and its arguments, with a line: whether it ran, what it printed."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the module itself prints is no reply
    importlib.import_module(module)
    for line in sys.stdin:
        program, *sys.argv[1:] = json.loads(line)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})  # noqa: S102
            done = True
        except Exception:  # noqa: BLE001  (the test that sent it is told)
            traceback.print_exc()
            done = False
        print(json.dumps([done, printed.getvalue()]), file=replies, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
