"""Exit statuses, and how a user's mistake is told."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


def listen_to_signals() -> None:
    """The first Ctrl-C or SIGTERM ends what runs, with its summary; a second one of either ends the process at once.

    Nothing is lost then: what has finished is on disk before it is counted.
    """

    def first(number: int, frame: object) -> None:
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, lambda number, frame: os._exit(128 + number))
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, first)
