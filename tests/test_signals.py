"""Ctrl-C in the midst of a call that Python cannot break off, as a compilation is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from jgleak.cli.status import INTERRUPTED

SCRIPT = """
import hashlib, sys, threading, time
from jgleak.cli import status

status.PATIENCE = {patience}
status.listen_to_signals()

def call():  # half a minute without the lock of the interpreter
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 50_000_000)

def until_it_returns():
    while sys._current_frames()[threading.main_thread().ident].f_code.co_name == "returns":
        time.sleep(0.01)
    time.sleep(0.2)  # what the main thread would say, it says now

with status.last_words(lambda: {first}, lambda: print("a summary")):
    {body}
"""

HEARD = """
    try:
        print("begun", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        call()
"""
"""A first one that is heard, and a summary that takes its time."""


def begun(body: str, patience: float, first: str = 'print("kept in out")') -> subprocess.Popen[str]:
    """A process in the midst of its call, with the first of its last words."""
    code = SCRIPT.format(body=body, patience=patience, first=first)
    made = subprocess.Popen([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert made.stdout is not None and made.stdout.readline() == "begun\n"
    time.sleep(0.05)
    return made


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_not_heard_ends_with_the_summary(number: signal.Signals) -> None:
    one = begun("call()", 0.2)
    one.send_signal(number)
    said, errors = one.communicate(timeout=20)
    assert (one.returncode, said, errors) == (INTERRUPTED + number, "kept in out\na summary\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has them")
@pytest.mark.parametrize("body", ["call()", HEARD])
def test_a_second_one_ends_at_once(body: str) -> None:
    one = begun(body, 60.0)
    one.send_signal(signal.SIGINT)
    time.sleep(0.3)
    one.send_signal(signal.SIGINT)
    said, errors = one.communicate(timeout=20)
    assert one.returncode == INTERRUPTED + signal.SIGINT and "summary" not in said and not errors


WOKEN = """
    def returns():
        print("begun", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1_000_000)  # about half a second

    try:
        returns()
        print("on it goes")
    except KeyboardInterrupt:
        print("again")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has them")
def test_a_call_that_returns_while_the_last_words_are_spoken_says_nothing_more() -> None:
    """Else the summary would be written twice."""
    one = begun(WOKEN, 0.1, "until_it_returns()")
    one.send_signal(signal.SIGINT)
    said, errors = one.communicate(timeout=20)
    assert (one.returncode, said, errors) == (INTERRUPTED + signal.SIGINT, "a summary\n", "")


@pytest.mark.parametrize(("status", "left"), [(0, "left"), (2, "left"), (INTERRUPTED + signal.SIGINT, "")])
def test_a_command_that_a_signal_ended_takes_nothing_down(status: int, left: str) -> None:
    """What Python calls at its end is not called, since threads may be in the midst of XLA's code."""
    code = f"import atexit; from jgleak.cli import status; atexit.register(print, 'left'); status.leave({status})"
    code += f"; raise SystemExit({status})"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (status, left)
