"""``results.jsonl``: one record on each line, each written completely before the next, or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Lines:
    """A new file of records in an existing folder.

    Raises:
      FileExistsError: on creation, if the file exists: two runs would mix.
      OSError: on creation, if it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.count = folder / "results.jsonl", 0
        self._file = self.path.open("xb", buffering=0)

    def append(self, record: Mapping[str, Any]) -> None:
        """Hand one line to the operating system.

        Raises:
          ValueError: there is no room for it.
        """
        line, place = json.dumps(record).encode() + b"\n", self._file.tell()
        with self.room():
            try:
                if self._file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                self._file.seek(place)
                self._file.truncate()
                raise
        self.count += 1

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Where the folder cannot be written, the error states which results are safe."""
        try:
            yield
        except OSError as error:
            raise ValueError(
                f"out: cannot write to {self.path.parent} ({error.strerror}); {self.count} line(s) of results.jsonl "
                "are safe and whole, other files of the last one may be missing: make room, and choose another folder"
            ) from error

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        self._file.close()
        if not self.count:
            self.path.unlink()
