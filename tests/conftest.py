"""Settings of every test: what suits many small problems on a few busy cores.

XLA compiles with few optimisations, since most functions here run once or twice. BLAS uses one thread: more threads
than free cores make a small decomposition many times slower.
"""

from __future__ import annotations

import os

import scipy.linalg  # noqa: F401 - the limit below holds for libraries that are loaded
from threadpoolctl import threadpool_limits

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
threadpool_limits(1, user_api="blas")
