"""The check, in every test, that the library asks for full precision where it multiplies matrices of float32.

A GPU rounds the factors of other products (``jgleak.gnn.precise``), which no test on a CPU would notice. A product is
seen when JAX traces it: one of the same shapes that a test made by itself before, without precision, hides it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

SPEC: Any = find_spec("jgleak")
LIBRARY = str(SPEC.submodule_search_locations[0])
TESTS = str(Path(__file__).parent)
BETWEEN = (__file__, str(Path(__file__).with_name("type_checks.py")))
"""Of the tests, but between a function of the library and its callers."""

FULL = (jax.lax.Precision.HIGHEST,) * 2
bind: Any = jax.lax.dot_general_p.bind


def check_products() -> None:
    """Have every product checked from now on."""
    jax.lax.dot_general_p.bind = checked  # type: ignore[method-assign]


def checked(*factors: Any, precision: Any, **how: Any) -> Any:
    """A product, or an AssertionError with the line of the library that asks for a rounded one."""
    if precision != FULL and all(factor.dtype == jnp.float32 for factor in factors):
        frame = sys._getframe(1)
        while frame is not None:
            place = frame.f_code.co_filename
            ours = place.startswith(LIBRARY)
            assert not ours, f"a GPU rounds this product: {place}:{frame.f_lineno}; see jgleak.gnn.precise"
            if place.startswith(TESTS) and place not in BETWEEN:
                break
            frame = frame.f_back
    return bind(*factors, precision=precision, **how)
