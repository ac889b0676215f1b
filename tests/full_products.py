"""The check, in every test, that the library asks for full precision where it multiplies matrices of float32.

A GPU rounds the factors of other products (``jgleak.gnn.precise``), which no test on a CPU would notice.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

LIBRARY: Any = find_spec("jgleak")
OTHERS = ("site-packages", str(Path(__file__).with_name("type_checks.py")))
bind: Any = jax.lax.dot_general_p.bind


def check_products() -> None:
    """Have every product checked from now on."""
    jax.lax.dot_general_p.bind = checked  # type: ignore[method-assign]


def checked(*factors: Any, precision: Any, **how: Any) -> Any:
    """A product, or an AssertionError with the line of the library that asks for a rounded one."""
    if precision is None and all(factor.dtype == jnp.float32 for factor in factors):
        frame = sys._getframe(1)
        while any(other in frame.f_code.co_filename for other in OTHERS) and frame.f_back is not None:
            frame = frame.f_back
        place = frame.f_code.co_filename
        ours = place.startswith(LIBRARY.submodule_search_locations[0])
        assert not ours, f"a GPU rounds this product: {place}:{frame.f_lineno}; see jgleak.gnn.precise"
    return bind(*factors, precision=precision, **how)
