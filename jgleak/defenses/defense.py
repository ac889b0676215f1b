"""What a defence is: steps that change a client's update, or its activations, before anything leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

Disturb = Callable[[int, Float[Array, "N D"]], Float[Array, "N D"]]
"""From a layer's number and its output to what the client passes on instead."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A family of defences that differ in one number.

    Attributes:
      name: what users type.
      transform: from the strength and a key to an optax transformation of the update; None where the update passes.
      disturb: from the strength, a key and a layer's output to the disturbed output; None where activations pass.
      graph: from the strength to what is done to every graph's gradient before the mean over a batch; None where these
        pass.
      fault: what is wrong with a strength, or None.
      deviation: from the strength and the update that left to the standard deviation of the zero-mean noise on an
        entry (its root mean square in the tensor where that is largest); None where what it does is no such noise.
      bounds: from the strength and the sizes of the update's tensors to ``(L1, L2)`` bounds of the update's norms;
        None where it bounds nothing.
      rounding: root mean square error of every entry relative to its size, beside ``deviation``.
      scales: it changes the update's length alone.
      drops: it sets the smallest entries of a tensor to zero.
      idle: from the strength, the update that left and the deviation of the noise that came after, whether the update
        shows that this step changed nothing (all but surely); None where nothing shows it.
      plain: it has no strength.
    """

    name: str
    transform: Callable[[float, Array], optax.GradientTransformation] | None = None
    disturb: Callable[[float, Array, Float[Array, "N D"]], Float[Array, "N D"]] | None = None
    graph: Callable[[float], optax.GradientTransformation] | None = None
    fault: Callable[[float], str | None] = lambda strength: None if strength > 0 else "must be above 0"
    deviation: Callable[[float, PyTree], float] | None = None
    bounds: Callable[[float, tuple[int, ...]], tuple[float, float]] | None = None
    rounding: float = 0.0
    scales: bool = False
    drops: bool = False
    idle: Callable[[float, PyTree, float], bool] | None = None
    plain: bool = False


@dataclasses.dataclass(frozen=True)
class Step:
    """One kind at one strength.

    Raises:
      ValueError: the strength is not a finite number the kind can take.
    """

    kind: Kind
    strength: float = 0.0

    def __post_init__(self) -> None:
        if self.kind.plain:
            return
        fault = self.kind.fault(self.strength) if np.isfinite(self.strength) else "must be a finite number"
        if fault is not None:
            raise ValueError(f"defense: the strength of {self.kind.name!r} {fault}, got {self.strength}")

    def __str__(self) -> str:
        return self.kind.name if self.kind.plain else f"{self.kind.name}:{self.strength!r}"


@dataclasses.dataclass(frozen=True)
class Defense:
    """Steps in the order in which the client takes them; none at all is no defence.

    ``str`` gives the text that ``jgleak.defenses.parse`` reads: ``clip:1+gaussian:0.1``.

    Raises:
      ValueError: something is to be done to graphs' gradients after their mean was taken.
    """

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        changed = False
        for step in self.steps:
            if step.kind.graph is not None and changed:
                raise ValueError(
                    f"defense: {step} acts on each graph's gradient, and in {str(self)!r} stands behind what acts on "
                    "their mean; put it first"
                )
            changed = changed or step.kind.transform is not None

    def __str__(self) -> str:
        return "+".join(map(str, self.steps))

    def transform(self, *, key: Array) -> optax.GradientTransformation:
        """The steps on the update as one optax transformation; every step draws from a key of its own."""
        keys = jax.random.split(key, max(len(self.steps), 1))
        pairs = zip(self.steps, keys, strict=False)
        parts = [s.kind.transform(s.strength, k) for s, k in pairs if s.kind.transform is not None]
        return optax.chain(*parts) if parts else optax.identity()

    def apply(self, update: PyTree, *, key: Array) -> PyTree:
        """One client's update as it leaves, a pytree of gradients; what acts on each graph's comes before that
        (``on_graphs``)."""
        return _applied(self, update, key) if self.on_update else update

    def on_graphs(self, each: PyTree) -> PyTree:
        """Gradients of a batch's graphs, every leaf with a leading axis for these, as they enter the mean."""
        for step in self.steps:
            if step.kind.graph is not None:
                each = jax.vmap(partial(_changed, step.kind.graph(step.strength)))(each)
        return each

    def disturb(self, *, key: Array) -> Disturb | None:
        """What is done to every layer's output inside the client's forward pass, or None."""
        inside = [step for step in self.steps if step.kind.disturb is not None]
        return partial(_disturbed, inside, key) if inside else None

    @property
    def on_update(self) -> bool:
        """Something is done to the update."""
        return any(step.kind.transform is not None for step in self.steps)

    @property
    def inside(self) -> bool:
        """Something is done inside the forward pass."""
        return any(step.kind.disturb is not None for step in self.steps)

    def deviation(self, update: PyTree) -> float | None:
        """Standard deviation of the noise on an entry of the update that left, as anyone who knows the defence sees it,
        beside its rounding.

        None where there is neither, and where what happens is not noise around the true gradient's direction alone:
        entries are pruned or cut (unless the update shows that the bound was never reached), only signs leave,
        activations are disturbed, or noise was clipped with it.
        """
        return float(np.linalg.norm(self._noises(update))) if self._around(update) else None

    def rounding(self, update: PyTree) -> float | None:
        """Root mean square error of every entry of the update that left, relative to its size, from rounding; None
        where nothing rounds, and where ``deviation`` has none."""
        found = max((step.kind.rounding for step in self.steps), default=0.0)  # what is rounded is not rounded again
        return found if found and self._around(update) else None

    def _noises(self, update: PyTree) -> list[float]:
        return [0.0 if s.kind.deviation is None else s.kind.deviation(s.strength, update) for s in self.steps]

    def _around(self, update: PyTree) -> bool:
        """What left is the gradient's direction with noise of known size, or rounding."""
        loudest = max((float(np.max(np.abs(leaf), initial=0.0)) for leaf in jax.tree.leaves(update)), default=0.0)
        pairs = zip(self._noises(update), self.steps, strict=True)
        noises = [float(np.hypot(noise, step.kind.rounding * loudest)) for noise, step in pairs]
        for number, step in enumerate(self.steps):
            if step.kind.deviation is not None:
                continue
            later = float(np.linalg.norm(noises[number:]))
            idle = step.kind.idle is not None and step.kind.idle(step.strength, update, later)
            if not idle and (not step.kind.scales or any(noises[:number])):
                return False
        return any(noises)

    @property
    def distorting(self) -> tuple[Step, ...]:
        """The steps that may leave neither the gradient's direction nor noise of known size around it: they cut
        entries or leave them out, send signs alone, or disturb activations."""
        kinds = [(step, step.kind) for step in self.steps]
        return tuple(step for step, kind in kinds if kind.drops or (kind.deviation is None and not kind.scales))

    @property
    def scales(self) -> bool:
        """The update may leave shorter than the gradient is."""
        return any(step.kind.scales for step in self.steps)

    @property
    def drops(self) -> bool:
        """Entries of the update that are zero may have been left out."""
        return any(step.kind.drops for step in self.steps)


@partial(jax.jit, static_argnames=("defense",))
def _applied(defense: Defense, update: PyTree, key: Array) -> PyTree:
    transform = defense.transform(key=key)
    return _changed(transform, update)


def _changed(transform: optax.GradientTransformation, gradient: PyTree) -> PyTree:
    """What leaves of a gradient. One with entries that are not finite leaves as NaN: bounds, pruning and signs would
    make numbers of them."""
    finite = jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), gradient)
    whole = jax.tree.reduce(jnp.logical_and, finite, True)
    changed = transform.update(gradient, transform.init(gradient))[0]
    return jax.tree.map(lambda leaf: jnp.where(whole, leaf, jnp.nan), changed)


def _disturbed(steps: list[Step], key: Array, layer: int, state: Float[Array, "N D"]) -> Float[Array, "N D"]:
    for number, step in enumerate(steps):
        own: Any = jax.random.fold_in(jax.random.fold_in(key, number), layer)
        state = step.kind.disturb(step.strength, own, state) if step.kind.disturb is not None else state
    return state
