"""Settings of every test: what suits many small problems on a few busy cores.

XLA compiles with few optimisations, without its slow fusion emitters and each function in one piece, since most
functions here run once or twice; what one process has compiled the others find in a cache. XLA aborts where it does not
know a flag, so that other versions of jaxlib than the one that was tested run without. JAX would make a context of
MLIR for each function that it lowers and keep it as long as the function, which costs a quarter of the time and most of
the memory: here all share one. BLAS uses one thread: more threads than free cores make a small decomposition many times
slower. Python looks for garbage after 700 new objects, while tracing a function makes some 10,000 that stay; here it
does so seldom. Typer would build all commands of the program again for each call. Products that a GPU would round are
errors.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import jaxtyping
import pytest
import scipy.linalg  # noqa: F401 - the limit below holds for libraries that are loaded
import typer.testing
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).parents[1]))  # last: benchmarks are the checkout's, jgleak is the installed one

os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
gc.set_threshold(100_000, 50, 100)  # before the tests are read, which leaves much and no garbage
TESTED = version("jaxlib") == "0.10.2"
"""The version whose flags and inner functions are those below."""

if TESTED:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1")
threadpool_limits(1, user_api="blas")

from full_products import check_products  # noqa: E402 - it imports JAX, which reads the settings above
from type_checks import checked  # noqa: E402

jaxtyping.jaxtyped = checked
check_products()
typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def one_context() -> None:
    """All functions are lowered in one context."""
    if TESTED:
        from jax._src.interpreters import mlir

        mlir.make_ir_context = functools.cache(mlir.make_ir_context)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No check of shapes and types, as for users: for a test of what someone is told who gives wrong ones."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
