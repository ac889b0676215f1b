"""Exit statuses, and how a user's mistake is told."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import typer

from jgleak.audit.specification import Faults

MISTAKE, FAILED, NOTHING, GATE = 2, 1, 3, 4
"""The user's mistake, an attack that broke down, an attack that found nothing, an audit that fails its gate. A signal
has 128 and its number."""

INTERRUPTED = 128
"""From here on a signal ended the command."""


@contextmanager
def mistakes() -> Iterator[None]:
    """A user's mistake is a line on standard error and exit status 2; a decomposition that fails is none, and 1."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, KeyError, OSError) as error:
        if _no_decomposition(error):
            typer.echo(f"error: {BROKEN.format(error)}", err=True)
            raise typer.Exit(FAILED) from error
        message = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
        for fault in error.faults if isinstance(error, Faults) else (message,):
            said = " ".join(str(fault).split())
            typer.echo("error: " + re.sub(r"\d{61,}", _first_digits, said), err=True)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt as error:
        typer.echo("interrupted", err=True)
        raise typer.Exit(status_of(error)) from None
    except Exception as error:
        too_much = _too_much(error)
        if too_much is None:
            raise
        typer.echo(f"error: {too_much}", err=True)
        raise typer.Exit(MISTAKE) from error


BROKEN = (
    "the attack broke down: a decomposition of a matrix failed ({}). Neither the file nor an option is to blame, and "
    "nothing follows about the graph; try another --seed or --attack, or the client's next round"
)


def _no_decomposition(error: Exception) -> bool:
    """NumPy and SciPy report matrices that they cannot decompose, and it is a ``ValueError``."""
    numpy = sys.modules.get("numpy")  # not imported here: who has met the error has done so
    return numpy is not None and isinstance(error, numpy.linalg.LinAlgError)


def _first_digits(number: re.Match[str]) -> str:
    return f"{number[0][:40]}.. ({len(number[0])} digits)"


def _too_much(error: Exception) -> str | None:
    """What there is to say of numbers that nothing can hold; None of any other exception, which is a defect."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "the memory does not suffice; take a smaller model, smaller or fewer graphs, or fewer restarts"
    if isinstance(error, OverflowError):
        return f"a number is too large ({error}); take a smaller one"
    if isinstance(error, RecursionError):
        return "something is nested too deeply to be read; is the file the right one?"
    return None


class Terminated(KeyboardInterrupt):
    """SIGTERM came: a scheduler's way to say Ctrl-C."""


def status_of(interruption: KeyboardInterrupt) -> int:
    """The exit status that tells a shell which signal it was."""
    return INTERRUPTED + (signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT)


PATIENCE = 3.0
"""Seconds after which a signal that was not heard ends the process. Python hears signals between two of its own
instructions, and a compilation or a solver may be one instruction of half a minute."""

_last_words: list[tuple[Callable[[], None], ...]] = []


@contextmanager
def last_words(*say: Callable[[], None]) -> Iterator[None]:
    """While this lasts, what is called where a signal ends the process in the midst of a call: in another thread, as
    the last thing that the process does."""
    _last_words.append(say)
    try:
        yield
    finally:
        _last_words.remove(say)


def listen_to_signals() -> None:
    """The first Ctrl-C or SIGTERM ends what runs, with its summary, within ``PATIENCE``; a second one of either ends
    the process at once.

    Nothing is lost then: what has finished is on disk before it is counted.
    """
    heard, claimed = threading.Event(), threading.Lock()

    def first(number: int, frame: object) -> None:
        if heard.is_set():
            return
        if not claimed.acquire(blocking=False):
            threading.Event().wait()  # the other thread has begun to speak, and ends the process: say nothing twice
        heard.set()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, first)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours, claimed), daemon=True).start()


def _watch(signals: socket.socket, claimed: threading.Lock) -> None:
    """End the process on the second signal, or where the main thread does not hear the first one. The thread that has
    ``claimed`` the first one speaks."""
    number = _next(signals)
    signals.settimeout(PATIENCE)
    try:
        _end(_next(signals))
    except TimeoutError:
        pass
    if claimed.acquire(blocking=False):
        for say in _last_words[-1] if _last_words else (partial(typer.echo, "interrupted", err=True),):
            with suppress(Exception):  # who reads may have ended as well, and nothing but this thread ends us then
                say()
        _end(number)
    signals.settimeout(None)
    _end(_next(signals))


def _next(signals: socket.socket) -> int:
    """The next of our signals; libraries may listen to others."""
    while (number := signals.recv(1)[0]) not in (signal.SIGINT, signal.SIGTERM):
        pass
    return number


def leave(status: object) -> None:
    """End the process here if a signal ended the command.

    Python would take down its modules first, and with them XLA's, whose threads may be in the midst of what was broken
    off: they have been seen to end the process with a signal of their own.
    """
    if isinstance(status, int) and status > INTERRUPTED:
        _end(status - INTERRUPTED)


def _end(number: int) -> None:
    try:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        with suppress(OSError, ValueError):
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the cursor, which a progress bar hides
    finally:
        os._exit(INTERRUPTED + number)
