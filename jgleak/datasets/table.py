"""Reading plain tables of numbers, with the file and the line in every complaint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Num


def read_table(
    file: Path, dtype: type[np.generic], *, columns: int | None = None, delimiter: str | None = ",", header: int = 0
) -> Num[np.ndarray, "rows columns"]:
    """The finite numbers of a text file, one row a line.

    Args:
      file: a UTF-8 text file without blank lines (except at its end).
      dtype: the NumPy type of the entries.
      columns: how many entries a line must have; None takes the first line's count.
      delimiter: what stands between entries, such as ``,`` or ``::``; None means white space.
      header: number of leading lines to skip.

    Raises:
      ValueError: naming the file and the first line that cannot be read.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").rstrip().splitlines()[header:]
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    if delimiter is not None and len(delimiter) > 1:  # NumPy reads delimiters of one character
        lines, delimiter = [line.replace(delimiter, "\t") for line in lines], "\t"
    if not lines:
        return np.zeros((0, columns or 0), dtype)
    wanted = columns or len(lines[0].split(delimiter))
    try:
        table = np.loadtxt(lines, dtype=dtype, delimiter=delimiter, comments=None, ndmin=2)
    except (ValueError, OverflowError) as error:
        raise _complaint(file, lines, dtype, wanted, delimiter, header, str(error)) from error
    if table.shape != (len(lines), wanted) or not np.all(np.isfinite(table)):
        raise _complaint(file, lines, dtype, wanted, delimiter, header, "malformed table")
    return table


def _complaint(
    file: Path, lines: list[str], dtype: Any, wanted: int, delimiter: str | None, header: int, reason: str
) -> ValueError:
    for number, line in enumerate(lines, start=1 + header):
        entries = line.split(delimiter)
        if len(entries) != wanted:
            return ValueError(f"{file.name}, line {number}: expected {wanted} entries, found {len(entries)}: {line!r}")
        for entry in entries:
            try:
                finite = bool(np.isfinite(dtype(entry.strip())))
            except (ValueError, OverflowError):
                finite = False
            if not finite:
                kind = "an integer" if np.issubdtype(dtype, np.integer) else "a finite number"
                return ValueError(f"{file.name}, line {number}: {entry.strip()!r} is not {kind}")
    return ValueError(f"{file.name}: {reason}")
