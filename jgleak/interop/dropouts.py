"""Dropout in a live model's forward pass, as a module or as a function, in the model's current mode."""

from __future__ import annotations

import inspect
from typing import Any

from jgleak.interop.probe import Probe, run
from jgleak.interop.record import DROPOUTS


def dropout_rate(model: Any, probe: Probe) -> float:
    """The largest share of entries that a forward pass masks, by ``Dropout`` modules in training mode and by
    ``torch.nn.functional.dropout`` where it is given ``training=True`` (its default); 0: none.

    The model is run once, on a small graph, without gradients; it and torch's random state are not changed. For a model
    that cannot be run in its mode on such a graph only its modules count.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch.overrides import TorchFunctionMode  # pyright: ignore[reportMissingImports]

    rates = [float(part.p) for part in model.modules() if part.training and "Dropout" in type(part).__name__]

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            rates.append(_rate(func, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    try:
        with torch.random.fork_rng(devices=[]), Watching():
            run(model, probe)
    except Exception:  # the user's code may raise anything; reading the model reports it
        pass
    return max(rates, default=0.0)


def _rate(function: Any, args: Any, kwargs: Any) -> float:
    """The share that one call masks; 0 for other functions than dropout."""
    if getattr(function, "__name__", "").strip("_") not in DROPOUTS:
        return 0.0
    try:
        said = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # torch.dropout, in C: input, p, train
        _, rate, training = (*args, *kwargs.values())[:3]
        return float(rate) if training else 0.0
    said.apply_defaults()
    return float(said.arguments["p"]) if said.arguments.get("training", True) else 0.0
