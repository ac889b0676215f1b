"""What a defence guarantees: (epsilon, delta) over many rounds, from a real accountant."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from jgleak.defenses.activation import ACTIVATIONS, ACTIVATIONS_GAUSSIAN
from jgleak.defenses.clip import CLIP_ENTRIES
from jgleak.defenses.defense import Defense, Step
from jgleak.defenses.noise import GAUSSIAN, LAPLACE
from jgleak.defenses.percentile import PERCENTILE
from jgleak.defenses.prune import PRUNE
from jgleak.defenses.sparse_vector import EPSILON, NOISE_VAR, SPARSE_VECTOR, scales


@dataclasses.dataclass(frozen=True)
class Privacy:
    """A guarantee of local differential privacy.

    The server sees every client's update by itself, so any two clients are neighbours: a clipped update can move by
    twice its bound.

    Attributes:
      epsilon: over all rounds; infinite where nothing is guaranteed.
      delta: at which it holds.
      rounds: in which a client takes part.
      per_coordinate: epsilon of one entry in one round, for Laplace noise on bounded entries (what FedGNN states);
        None elsewhere.
      reason: what the numbers rest on, or why nothing is guaranteed.
    """

    epsilon: float
    delta: float
    rounds: int
    per_coordinate: float | None
    reason: str


def privacy(defense: Defense, sizes: Sequence[int], *, rounds: int = 1, delta: float = 1e-5) -> Privacy:
    """The guarantee of a defence, by composition over rounds.

    A step of noise counts with a bound before it, as long as nothing between can enlarge the update; of several such
    pairs the best one counts.

    Args:
      defense: its steps in order; what follows the noise is post-processing and changes nothing.
      sizes: numbers of entries of the update's tensors.
      rounds: in which one client takes part.
      delta: probability with which the guarantee may fail.

    Raises:
      ValueError: ``delta`` is outside (0, 1), ``rounds`` is below 1, or a tensor has no entry.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta: must lie between 0 and 1, got {delta}")
    if not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds: must be a whole number from 1, got {rounds}")
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"sizes: every tensor of an update has at least one entry, got {list(sizes)}")
    if not any(step.kind in (GAUSSIAN, LAPLACE) for step in defense.steps):
        if any(step.kind is SPARSE_VECTOR for step in defense.steps):
            return _nothing(delta, rounds, _sparse_vector(sum(sizes), rounds))
        return _nothing(delta, rounds, "no noise is added to the update, so two clients can always be told apart")
    bounds: list[Step] = []
    found: list[Privacy] = []
    for step in defense.steps:
        if step.kind in (GAUSSIAN, LAPLACE):
            found += [_guaranteed(bound, step, sizes, rounds, delta) for bound in bounds]
        if step.kind.bounds is not None:
            bounds.append(step)
        elif step.kind not in SHRINKING:
            bounds = []
    missing = "nothing bounds the update right before the noise; clip there (clip:1+gaussian:0.1)"
    return min(found, key=lambda privacy: privacy.epsilon, default=_nothing(delta, rounds, missing))


def _guaranteed(bound: Step, noise: Step, sizes: Sequence[int], rounds: int, delta: float) -> Privacy:
    """What one step of noise guarantees on what one clipping left."""
    assert bound.kind.bounds is not None
    l1, l2 = bound.kind.bounds(bound.strength, tuple(sizes))
    if noise.kind is GAUSSIAN:
        epsilon = _gaussian(noise.strength / (2.0 * l2), rounds, delta)
        reason = f"Gaussian noise, {noise.strength / (2.0 * l2):.3g} of the L2 sensitivity; Rényi accountant"
    else:
        scale = noise.strength / math.sqrt(2.0)
        epsilon = _laplace(scale / (2.0 * l1), rounds, delta)
        reason = f"Laplace noise, {scale / (2.0 * l1):.3g} of the L1 sensitivity over {sum(sizes)} entries"
    return Privacy(epsilon, delta, rounds, _coordinate(bound, noise), reason)


def _nothing(delta: float, rounds: int, reason: str) -> Privacy:
    return Privacy(math.inf, delta, rounds, None, reason)


def _sparse_vector(entries: int, rounds: int) -> str:
    total = rounds * (EPSILON + NOISE_VAR * scales(1.0, entries).count)
    return (
        f"NVFlare's own accountant adds SVTPrivacy up to epsilon {total:.4g}; more answers pass its threshold than it "
        "counts, which the proof of the technique does not cover"
    )


def _coordinate(bound: Step, noise: Step) -> float | None:
    if bound.kind is not CLIP_ENTRIES or noise.kind is not LAPLACE:
        return None
    return 2.0 * bound.strength * math.sqrt(2.0) / noise.strength


def _gaussian(multiplier: float, rounds: int, delta: float) -> float:
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), rounds)
    return float(accountant.get_epsilon(delta))


def _laplace(multiplier: float, rounds: int, delta: float) -> float:
    """The better of pure composition and a privacy-loss distribution, which only pays while epsilon is moderate."""
    pure = rounds / multiplier
    if pure > MODERATE:
        return pure
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(multiplier), rounds)
    return min(pure, float(accountant.get_epsilon(delta)))


SHRINKING = (PRUNE, PERCENTILE, ACTIVATIONS, ACTIVATIONS_GAUSSIAN)
"""Steps that no update leaves larger than it came, so that an earlier bound stays; noise and rounding are none."""

MODERATE = 100.0
"""Pure epsilons above this are reported as they are: distributions of such losses are large, and the number says "no
protection" either way."""
