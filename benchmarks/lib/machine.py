"""What the machine can do: its peak, its name, and how long a call takes."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp


def seconds(run: Callable[[], Any]) -> float:
    """Wall clock of one call."""
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def peak(*, size: int = 2048, repeats: int = 10) -> tuple[float, str]:
    """Float32 operations a second that the devices reach, and with what: a matrix product or fused multiply-adds."""
    matrix, vector = jnp.ones((size, size)), jnp.ones(size**2)
    chains, steps = 8, 64

    @jax.jit
    def product(a: jax.Array) -> jax.Array:
        return jnp.matmul(a, a, precision="highest")

    @jax.jit
    def chain(x: jax.Array, a: jax.Array) -> jax.Array:
        parts = [x + i for i in range(chains)]  # independent, so that one need not wait for another
        for _ in range(steps):
            parts = [part * a + a for part in parts]
        return sum(parts[1:], parts[0])

    half = jnp.float32(0.5)
    work = {
        "a matrix product": (lambda: product(matrix).block_until_ready(), 2 * size**3),
        "chains of multiply-adds": (lambda: chain(vector, half).block_until_ready(), 2 * chains * steps * size**2),
    }
    reached = {name: flops / min(seconds(run) for _ in range(repeats + 1)) for name, (run, flops) in work.items()}
    by = max(reached, key=lambda name: reached[name])
    return reached[by] * (1 if jax.default_backend() == "cpu" else jax.device_count()), by


def host() -> str:
    """The processor, by name where the system tells it, and its cores."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
