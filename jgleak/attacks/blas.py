"""BLAS on one thread: matrices of the host are small, and more threads only wait for each other."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

import scipy.linalg  # noqa: F401 - the limit holds for libraries that are loaded when they are looked for
from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """A context in which the BLAS of NumPy and SciPy uses one thread."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    """Looked for once: that reads all mappings of the process, and XLA makes a dozen for every program."""
    return ThreadpoolController()
