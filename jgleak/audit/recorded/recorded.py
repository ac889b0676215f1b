"""Which file is attacked, and what is known besides."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Recorded:
    """One observation file.

    Attributes:
      file: its path.
      truth: a folder or file with the private graphs (``jgleak.audit.recorded.truth``); None: they are unknown.
      features: the meaning of the input's columns, as a text for ``jgleak.interop.feature_space``, where the file does
        not state it.
      noise: deviation of the noise on every entry, where the file's value is missing or wrong.
    """

    file: str
    truth: str | None = None
    features: str | None = None
    noise: float | None = None
