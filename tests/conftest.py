"""Settings of every test: XLA compiles with few optimisations, since most functions here run once or twice."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
