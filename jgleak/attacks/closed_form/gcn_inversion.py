"""A GCN whose edges are known, peeled down to its features as far as its mixing lets them show.

GCN's kernel has the gradient ``Hᵀ Sᵀ D``, which is exact linear algebra (Proposition 4) while ``S`` is well
conditioned. On networks it is not: nodes of one closed neighbourhood hide their difference, pendant paths nearly do,
and each eigenvalue ``v`` of ``S`` amplifies the rounding of float32 by ``1 / v``, at every layer again. What helps:

- *Shrinking.* Along directions that rounding has spoilt the answer keeps to a prior (``shrunk``), which of
  features is zero, the public mean where they are standardised; what is hidden of hidden states follows from the
  activation (``hidden``).
- *Passes.* Above the features everything depends on them through ``S X`` alone, in which what ``S`` hides has no part.
  So the features that were found make hidden states, far better ones than those that were peeled; these make the
  gradients at the first layer, and these the features, until the model's gradients come no nearer to the observed.

How strong to shrink is tried, and judged by the whole model's gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.activations import VALUES, slope_of
from jgleak.attacks.closed_form.layers import LayerGradient, below
from jgleak.attacks.closed_form.least_squares import Regularised, block_weights, regularised
from jgleak.attacks.closed_form.null_space import completed
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.tolerances import SETTINGS, ClosedFormSettings


class Inverted(NamedTuple):
    """Features, and what of them is a guess.

    Attributes:
      features: encoded ``(n, m)``.
      doubt: how far each node's row is expected to be off, from 0 to 1 (the prior's): ``Regularised.doubt``, the misfit
        being noise too.
      misfit: relative distance of the kernels' gradients from the observed ones.
      rank: of the gradients that reach the layers, the least.
    """

    features: Float[np.ndarray, "n m"]
    doubt: Float[np.ndarray, " n"]
    misfit: float
    rank: int


def inverted(
    layers: Sequence[LayerGradient],
    output: Float[np.ndarray, "B n D"],
    mixing: Float[np.ndarray, "n n"],
    act: str,
    settings: ClosedFormSettings = SETTINGS,
) -> Inverted:
    """Features of a GCN's nodes.

    Args:
      layers: the convolutions, the first one first.
      output: ``dL/dZ`` of the last one, in each gradient.
      mixing: the normalised adjacency ``S``.
      act: the activation between them, of ``VALUES``.
      settings: what counts as equal, and how many passes and strengths are tried.

    Raises:
      ConditionFailed: a layer without any gradient.
    """
    tolerances, limits = settings.tolerances, settings.limits
    upstream, rank = output, len(mixing)
    for layer, under in zip(layers[:0:-1], layers[-2::-1], strict=True):
        prior = np.tile(VALUES[act](under.bias), (len(mixing), 1))
        fit = _fit(layer, upstream, mixing, prior)
        rank = min(rank, len(fit.values))
        states = completed(fit.rows(), mixing, act, under.bias, settings)
        upstream = below(layer, upstream, mixing, slope_of(act, states, tolerances))
    best, stalled = None, 0
    for _ in range(limits.passes):
        try:
            fit = _fit(layers[0], upstream, mixing, np.zeros((len(mixing), len(layers[0].mixed(layers[0].weights)))))
        except ConditionFailed:
            if best is None:
                raise
            break  # the features that were found let no gradient through: the pass before found better ones
        reached = min(rank, len(fit.values))
        tried = list[tuple[Inverted, np.ndarray]]()
        for strength in 10.0 ** np.arange(limits.strengths):
            rows = fit.rows(strength)
            gradients = _upstream(layers, output, mixing, rows, act)
            misfit = _misfit(layers, gradients, mixing, fit)
            doubt = fit.doubt(max(strength, (misfit / fit.noise) ** 2))
            tried.append((Inverted(rows, doubt, misfit, reached), gradients[0][1]))
        least = min(found.misfit for found, _ in tried)
        found, above = next(one for one in tried if one[0].misfit <= tolerances.alike * least)
        nearer = best is None or found.misfit < tolerances.nearer * best.misfit
        best = found if best is None or found.misfit < best.misfit else best
        stalled = 0 if nearer else stalled + 1
        if stalled >= limits.patience:
            break
        upstream = above
    assert best is not None
    return best


def _fit(
    layer: LayerGradient,
    upstream: Float[np.ndarray, "B n D"],
    mixing: Float[np.ndarray, "n n"],
    prior: Float[np.ndarray, "n F"],
) -> Regularised:
    smallest = layer.tolerances.smallest
    return regularised(mixing.T @ upstream, layer.mixed(layer.gradients), prior, smallest=smallest)


def _upstream(
    layers: Sequence[LayerGradient],
    output: Float[np.ndarray, "B n D"],
    mixing: Float[np.ndarray, "n n"],
    rows: Float[np.ndarray, "n m"],
    act: str,
) -> list[tuple[Float[np.ndarray, "n _F"], Float[np.ndarray, "B n _D"]]]:
    """Of every layer, the states that enter it and ``dL/dZ``, if the features are ``rows``."""
    states = [rows]
    for layer in layers[:-1]:
        states.append(VALUES[act](mixing @ states[-1] @ layer.mixed(layer.weights) + layer.bias))
    found = [output]
    for layer, state in zip(layers[:0:-1], states[:0:-1], strict=True):
        found.append(below(layer, found[-1], mixing, slope_of(act, state, layer.tolerances)))
    return list(zip(states, found[::-1], strict=True))


def _misfit(
    layers: Sequence[LayerGradient],
    made: Sequence[tuple[Float[np.ndarray, "n _F"], Float[np.ndarray, "B n _D"]]],
    mixing: Float[np.ndarray, "n n"],
    fit: Regularised,
) -> float:
    """Relative distance of the kernels' gradients, the first layer's along the directions of its ``fit`` and beside."""
    (rows, upstream), *above = made
    weights = block_weights(layers[0].mixed(layers[0].gradients))
    design = np.einsum("b,bnd,bdr->nr", weights, mixing.T @ upstream, fit.right, optimize=True)
    total = float(np.sum(np.square(rows.T @ design - fit.seen))) / np.sum(weights > 0) + fit.missed**2
    for layer, (states, gradient) in zip(layers[1:], above, strict=True):
        seen = layer.mixed(layer.gradients)
        weights = block_weights(seen)
        gaps = (w * (states.T @ e - g) for w, e, g in zip(weights, mixing.T @ gradient, seen, strict=True))
        total += sum(float(np.sum(np.square(gap))) for gap in gaps) / max(np.sum(weights > 0), 1)
    return float(np.sqrt(total / len(layers)))
