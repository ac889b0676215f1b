"""Rounds of a running federation as observation files, one for each client and round."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from jgleak.features import FeatureSpace
from jgleak.federated.observation import save
from jgleak.interop.rounds import Rounds


@dataclasses.dataclass(frozen=True)
class Recorder:
    """Writes what a server sees of its clients, for ``jgleak invert``. It never stops a training.

    Attributes:
      rounds: how rounds are read.
      folder: the folder for the files; it is created.
      space: the public feature space, written into every file; None: the reader has to give it (``--features``).
    """

    rounds: Rounds
    folder: str | Path
    space: FeatureSpace | None = None

    def write(
        self, sent: Any, returned: Any, *, graphs: int | np.integer, number: int | None, client: str | int
    ) -> Path | None:
        """Write one client's round to ``round-001-client-7.safetensors``.

        Args:
          sent: as for ``Rounds.observation``.
          returned: as for ``Rounds.observation``.
          graphs: as for ``Rounds.observation``.
          number: the round's number; None: the first from 1 for which this client has no file.
          client: its name. Letters, digits and ``_.-~`` stay in the file's name, ``%2F`` and the like stand for others.

        Returns:
          The file; None where the round cannot be read.

        Warns:
          UserWarning: the round cannot be read or written, and why. The training goes on.
        """
        with going_on(number, client):
            observation = self.rounds.observation(sent, returned, graphs=graphs)
            path = self._path(number, client)
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path, observation, self.space)
            return path
        return None

    def _path(self, number: int | None, client: str | int) -> Path:
        if number is not None:
            name = quote(str(client), safe="")  # no two clients have one file
            return Path(self.folder) / f"round-{number:03d}-client-{name}.safetensors"
        paths = (self._path(free, client) for free in itertools.count(1))
        return next(path for path in paths if not path.exists())


@contextlib.contextmanager
def going_on(number: int | None, client: str | int) -> Iterator[None]:
    """Turn any exception inside into a warning that the round is not recorded, and continue after it."""
    try:
        yield
    # Any exception: a client may return anything, and it must not end the federation.
    except Exception as error:
        said = "a round" if number is None else f"round {number}"
        warnings.warn(f"{said} of client {client} is not recorded: {str(error) or type(error).__name__}", stacklevel=4)
