"""Rounds of a running federation as observation files, one a client and round."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any

from jgleak.features import FeatureSpace
from jgleak.federated.observation import save
from jgleak.interop.rounds import Rounds


@dataclasses.dataclass(frozen=True)
class Recorder:
    """Writes what a server sees of its clients, for ``jgleak invert``. It never stops a training.

    Attributes:
      rounds: how rounds are read.
      folder: where the files go; it is made.
      space: the public feature space, to be written into every file; None: the reader brings it (``--features``).
    """

    rounds: Rounds
    folder: str | Path
    space: FeatureSpace | None = None

    def write(self, sent: Any, returned: Any, *, graphs: int, number: int, client: str | int) -> Path | None:
        """Write one client's round to ``round-001-client-7.safetensors``.

        Args:
          sent, returned, graphs: as for ``Rounds.observation``.
          number: of the round.
          client: its name.

        Returns:
          The file; None where the round cannot be read.

        Warns:
          UserWarning: the round cannot be read or written, and why. The training goes on.
        """
        name = re.sub(r"[^\w.-]", "_", str(client))
        path = Path(self.folder) / f"round-{number:03d}-client-{name}.safetensors"
        try:
            observation = self.rounds.observation(sent, returned, graphs=graphs)
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path, observation, self.space)
        except (ValueError, OSError) as error:
            warnings.warn(f"round {number} of client {client} is not recorded: {error}", stacklevel=2)
            return None
        return path
