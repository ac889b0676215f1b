"""A folder of results: every finished client is on disk before the next one starts.

Pictures can be drawn again from the files; a thread draws them while the next clients are attacked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jgleak.attacks.certificate import Certificate
from jgleak.audit.certified import write
from jgleak.audit.experiment import Result
from jgleak.audit.lines import Lines
from jgleak.draw import draw_set
from jgleak.features import FeatureSpace
from jgleak.federated import Observation
from jgleak.federated.observation import serialise
from jgleak.plural import counted


class Store:
    """``results.jsonl``; for each client ``observations/NNN.safetensors`` and ``reconstructions/NNN.json`` (numbered by
    its first graph); and for each graph a picture ``NNN.png`` of all graphs listed for it.

    A folder holds one run: a second one would mix its files with the first's.

    Raises:
      ValueError: on creation, if the folder holds a run already or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._saved: tuple[Observation, Path] | None = None
        self._artist, self._pictures = ThreadPoolExecutor(1), list[Future[None]]()
        folders = (folder / "observations", folder / "reconstructions", folder, *folder.parents)
        try:
            self._made = tuple(f for f in folders if not f.exists())
            (folder / "observations").mkdir(parents=True, exist_ok=True)
            (folder / "reconstructions").mkdir(exist_ok=True)
            self._lines = Lines(folder)
        except FileExistsError as error:
            raise ValueError(f"out: {folder} holds an earlier run or is a file; choose another folder") from error
        except OSError as error:
            raise ValueError(f"out: cannot write to {folder} ({error.strerror}); choose another folder") from error

    def add(self, result: Result, record: Mapping[str, Any], space: FeatureSpace) -> None:
        """Store one client: the observation and the reconstruction, then its record, so that a record is never without
        its files, then the picture; without an update only the record."""
        if result.observation is None:
            self.append(record)
            return
        number = f"{result.index:03d}"
        with self._lines.room():
            new = self._saved is None or self._saved[0] is not result.observation
            observation = self._kept(result.observation, f"{number}.safetensors", space)
            if new:  # the graphs of a batch share theirs
                whole = result.whole or result.reconstruction
                write(self.folder / "reconstructions" / f"{number}.json", whole, observation)
        self.append(record)
        picture = self.folder / f"{number}.png"
        title = f"{record['attack']}: {_caption(result)}"
        graphs = result.reconstruction.graphs
        self._pictures.append(self._artist.submit(draw_set, result.truth, graphs, space, picture, title=title))

    def _kept(self, observation: Observation, name: str, space: FeatureSpace) -> Path:
        """The path of the observation, written under ``name`` if it is new: the graphs of a batch share one."""
        if self._saved is None or self._saved[0] is not observation:
            self._saved = observation, self.folder / "observations" / name
            self._saved[1].write_bytes(serialise(observation, space))
        return self._saved[1]

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one line and hand it to the operating system."""
        self._lines.append(record)

    def close(self) -> None:
        """Close the file of records and wait for the pictures. Without any records the new folders are removed, so that
        the next run may use them.

        Raises:
          ValueError: a picture could not be written.
        """
        self._lines.close()
        self._artist.shutdown()
        with self._lines.room():
            for picture in self._pictures:
                picture.result()
        if not self._lines.count:
            for folder in self._made:
                with contextlib.suppress(OSError):  # it holds other files
                    folder.rmdir()


def _caption(result: Result) -> str:
    """The quality of the best graph, and the certificate's claim, on one line."""
    best = "exact" if result.score.exact else f"GSM-2 {result.score.gsm2:.3f}"
    certificate = result.reconstruction.certificate
    return best if certificate is None else f"{best}; certificate: {_claim(certificate)}"


def _claim(certificate: Certificate) -> str:
    scope = f"with {certificate.n_max} nodes" if certificate.n_known else f"up to {certificate.n_max} nodes"
    count = {
        "unique": "unique",
        "k_graphs": f"{certificate.size} graphs",
        "at_least_k": f"at least {counted(certificate.size, 'graph')}",
    }
    terms = len(certificate.conditions)
    under = f", under {counted(terms, 'condition')}" if terms else ""
    return f"{count[certificate.status]} {scope}{under}"
