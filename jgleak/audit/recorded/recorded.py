"""Which file is attacked, and what is known beside it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Recorded:
    """One observation file.

    Attributes:
      file: its path.
      truth: a folder or file with the private graphs (``jgleak.audit.recorded.truth``); None: they are unknown.
      features: what the input's columns mean, as text of ``jgleak.interop.feature_space``, where the file does not say.
      noise: deviation of the noise on every entry, where the file does not say the right one.
    """

    file: str
    truth: str | None = None
    features: str | None = None
    noise: float | None = None
