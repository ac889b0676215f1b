"""Exit statuses, signals, and how mistakes are reported."""

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
"""Statuses of a user's mistake, of an attack that failed, of one that found nothing, and of an audit that fails its
gate. A signal has 128 plus its number."""

INTERRUPTED = 128
"""A status above this means that a signal ended the command."""


@contextmanager
def mistakes() -> Iterator[None]:
    """Report a user's mistake by a line on standard error and exit status 2; a failed decomposition of a matrix is
    none, and has status 1."""
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
    """True for the ``ValueError`` by which NumPy and SciPy report a matrix that they cannot decompose."""
    numpy = sys.modules.get("numpy")  # not imported here: where the error was raised it is imported
    return numpy is not None and isinstance(error, numpy.linalg.LinAlgError)


def _first_digits(number: re.Match[str]) -> str:
    return f"{number[0][:40]}.. ({len(number[0])} digits)"


def _too_much(error: Exception) -> str | None:
    """The message for a number or an object that is too large; None for other exceptions, which are defects."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "out of memory; use a smaller model, smaller or fewer graphs, or fewer restarts"
    if isinstance(error, OverflowError):
        return f"a number is too large ({error}); use a smaller one"
    if isinstance(error, RecursionError):
        return "the file is nested too deeply to be read; is it the right file?"
    return None


class Terminated(KeyboardInterrupt):
    """SIGTERM, with which a scheduler ends a process."""


def status_of(interruption: KeyboardInterrupt) -> int:
    """The exit status by which a shell sees the signal."""
    return INTERRUPTED + (signal.SIGTERM if isinstance(interruption, Terminated) else signal.SIGINT)


PATIENCE = 3.0
"""Seconds after which an unhandled signal ends the process. Python handles signals between two of its own instructions,
and a compilation or a solver may be a single instruction that takes long."""

_last_words: list[tuple[Callable[[], None], ...]] = []


@contextmanager
def last_words(*say: Callable[[], None]) -> Iterator[None]:
    """Within this context, ``say`` is called if a signal ends the process during a long call: in another thread, as the
    last action of the process."""
    _last_words.append(say)
    try:
        yield
    finally:
        _last_words.remove(say)


def listen_to_signals() -> None:
    """The first Ctrl-C or SIGTERM ends the run, with its summary, within ``PATIENCE``; a second one ends the process at
    once. No finished result is lost, since results are written before they are counted.
    """
    heard, claimed = threading.Event(), threading.Lock()

    def first(number: int, frame: object) -> None:
        if heard.is_set():
            return
        if not claimed.acquire(blocking=False):
            threading.Event().wait()  # the other thread is printing, and ends the process: print nothing twice
        heard.set()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, first)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(ours, claimed), daemon=True).start()


def _watch(signals: socket.socket, claimed: threading.Lock) -> None:
    """End the process on the second signal, or where the main thread does not handle the first one. The thread that has
    ``claimed`` the first one prints."""
    number = _next(signals)
    signals.settimeout(PATIENCE)
    try:
        _end(_next(signals))
    except TimeoutError:
        pass
    if claimed.acquire(blocking=False):
        for say in _last_words[-1] if _last_words else (partial(typer.echo, "interrupted", err=True),):
            with suppress(Exception):  # the reader may have ended too, and only this thread can end the process then
                say()
        _end(number)
    signals.settimeout(None)
    _end(_next(signals))


def _next(signals: socket.socket) -> int:
    """The next SIGINT or SIGTERM; libraries may handle other signals."""
    while (number := signals.recv(1)[0]) not in (signal.SIGINT, signal.SIGTERM):
        pass
    return number


def leave(status: object) -> None:
    """End the process here if a signal ended the command.

    Python would unload its modules first, XLA's among them, whose threads may still be running: they have been seen to
    end the process with a signal of their own.
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
