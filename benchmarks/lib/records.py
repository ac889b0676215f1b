"""Records as JSON lines: on the screen as they come, and in files of ``results/``."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"

Record = dict[str, Any]


class Records(list[Record]):
    """The records of one run, in order."""

    def say(self, record: Record) -> None:
        """Print a record and keep it."""
        self.append(record)
        print(json.dumps(record), flush=True)

    def write(self, name: str, page: str | None = None) -> None:
        """All of them into ``results/NAME.jsonl``, their page into ``results/NAME.md``, in place of what was there."""
        RESULTS.mkdir(exist_ok=True)
        lines = "".join(json.dumps(record) + "\n" for record in self)
        (RESULTS / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        if page is not None:
            (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")


class Kept:
    """The newest record of each row of a study; rows that are not measured again keep the one of an earlier run.

    Args:
      name: of the files, ``results/NAME.jsonl`` and ``results/NAME.md``.
      rows: what tells records apart: fields, the first one sorts first, and the order of each one's values; None for
        the order that the values have by themselves.
      page: from all records to the page.
      write: whether ``put`` writes the files.
    """

    def __init__(
        self,
        name: str,
        rows: Mapping[str, Collection[Any] | None],
        page: Callable[[Sequence[Record]], str],
        *,
        write: bool,
    ) -> None:
        self._name, self._rows, self._page, self._write = name, rows, page, write
        self._records = {self._key(record): record for record in read(RESULTS / f"{name}.jsonl")}

    def __contains__(self, record: Record) -> bool:
        """Whether there is a record of the same row; of ``record`` only the fields of rows are looked at."""
        return self._key(record) in self._records

    def __iter__(self) -> Iterator[Record]:
        """All records, in order."""
        return (self._records[key] for key in sorted(self._records, key=self._place))

    def put(self, record: Record, *, say: bool = True) -> None:
        """Print a record, and keep it in place of that of the same row."""
        self._records[self._key(record)] = record
        if say:
            Records().say(record)
        if self._write:
            records = Records(self)
            records.write(self._name, self._page(records))

    def _key(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[field] for field in self._rows)

    def _place(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        orders = self._rows.values()
        return tuple(x if order is None else list(order).index(x) for x, order in zip(key, orders, strict=True))


def read(file: Path) -> list[Record]:
    """The records of a file; none where there is no such file."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]
