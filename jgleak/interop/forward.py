"""A forward pass in any form: steps, names of arrays, or a live module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jgleak.interop.arrays import Arrays
from jgleak.interop.example import Example, Given
from jgleak.interop.kinds import layer_of
from jgleak.interop.layers import WORDS, Step
from jgleak.interop.plan import REFUSED
from jgleak.interop.probe import probe_of, run
from jgleak.interop.trace import traced

Forward = Sequence[Step] | Any
"""A list of steps, in which a name stands for the layer that has these arrays; or a live PyTorch module."""


def is_live(layers: Forward) -> bool:
    """True where the forward pass is given as a PyTorch module."""
    return hasattr(layers, "named_modules")


def forward_pass(layers: Forward, state: Arrays, example: Example | None) -> list[Step]:
    """The steps of a forward pass.

    Args:
      layers: the steps, names among them; or a live module.
      state: the arrays by name.
      example: an example of a live module's input rows.

    Raises:
      ValueError: a part of the module is not understood, or the arrays of a name fit no kind of layer; the message
        names it.
    """
    if is_live(layers):
        return steps_of(layers, example)
    return [_step(step, state) for step in layers]


def _step(step: Step, state: Arrays) -> Step:
    if isinstance(step, str) and step not in WORDS and step not in REFUSED:
        return layer_of(step, state)
    return step


def steps_of(model: Any, example: Given | None = None) -> list[Step]:
    """The forward pass of a live model as the list of steps that ``from_pyg`` takes.

    The model is run once, without gradients, on a graph of seven nodes.

    Args:
      model: the module.
      example: an example of its input rows; None: rows as wide as its first layer's input.

    Raises:
      ValueError: naming what was not understood, and where it stands in the model's code.
    """
    names = {id(module): name for name, module in model.named_modules()}
    shown = None if example is None else Example.of(example)
    return traced(model, names, probe_of(model) if shown is None else probe_of(model, shown.rows, shown.edge_rows))


def probed(model: Any, state: Arrays) -> Example:
    """A live model's output with the parameters ``state`` for the small graph of ``probe_of``.

    Raises:
      ValueError: the module's parameters have other shapes than the state's.
    """
    for name, tensor in model.state_dict().items():
        if name in state and tuple(tensor.shape) != np.shape(state[name]):
            raise ValueError(
                f"layers: the module's {name!r} has shape {tuple(tensor.shape)}, the state's {np.shape(state[name])}; "
                "give a module that is built as the client's is"
            )
    probe = probe_of(model)
    return Example.of(Example(probe.rows, probe.edges, run(model, probe, state), edge_rows=probe.edge_rows))
