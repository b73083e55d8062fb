"""Test the child that tests share."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from peer import Peer
from processes import ended, wait_until


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A child that is ready soon."""
    with Peer("wave") as child:
        yield child


def test_each_program_begins_afresh(peer: Peer) -> None:
    """It is given its arguments, and no name of the one before; the module is imported once."""
    program = "import sys; known = 'here' in dir(); here = 'wave' in sys.modules; print(known, here, sys.argv[1:])"
    assert [peer.run(program, "a b", "é\n") for _ in range(2)] == ["False True ['a b', 'é\\n']\n"] * 2


def test_failure_is_that_of_its_program_alone(peer: Peer) -> None:
    """The message is what the program wrote to standard error, traceback last; the next one runs in the same child."""
    pid = peer.pid
    with pytest.raises(AssertionError, match=r"^noise\nTraceback.*\n(.*\n)+ZeroDivisionError: division by zero\n"):
        peer.run("import os; os.write(2, b'noise\\n'); 1 / 0")
    with pytest.raises(AssertionError, match=r"^Traceback") as caught:
        peer.run("print('lost'); [][1]")
    assert "ZeroDivisionError" not in str(caught.value)
    assert peer.run("print('on')") == "on\n"
    assert peer.pid == pid


def test_print_of_a_library_is_no_reply(peer: Peer) -> None:
    """What is written to the descriptor of standard output does not pass for an answer."""
    assert peer.run("import os; os.write(1, b'[true, \"x\"]\\n'); print('y')") == "y\n"


def test_child_that_ended_is_told_and_replaced(peer: Peer) -> None:
    """The test that finds it fails with the status and the last words; the next has a new child."""
    with pytest.raises(AssertionError, match=r"the process of wave ended, status 7: last words"):
        peer.run("import os; os.write(2, b'last words'); os._exit(7)")
    assert peer.run("print('on')") == "on\n"


def test_no_answer_in_time_is_told(peer: Peer) -> None:
    """A child that hangs is ended, and the next program has a new one."""
    with pytest.raises(AssertionError, match=r"wave did not answer within 0\.2 s"):
        peer.run("import time; time.sleep(60)", timeout_s=0.2)
    assert peer.run("print('on')") == "on\n"


def test_module_that_cannot_be_imported_is_named() -> None:
    """The failure holds the traceback of the import."""
    with Peer("no_such_module") as peer, pytest.raises(AssertionError, match="No module named 'no_such_module'"):
        peer.run("")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_child_ends_with_the_session(number: signal.Signals) -> None:
    """However that ends."""
    code = "from peer import Peer; import time; peer = Peer('wave'); print(peer.pid, flush=True)\n"
    code += "while True: time.sleep(0.1)"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as session:
        assert session.stdout is not None
        child = psutil.Process(int(session.stdout.readline()))
        session.send_signal(number)
    wait_until(lambda: ended(child))
