"""Inverting gradients: cosine distance and signed steps (Geiping et al., NeurIPS 2020)."""

from __future__ import annotations

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.objectives import cosine
from jgleak.attacks.matching.options import signed_adam
from jgleak.attacks.matching.recipe import Recipe, relax_free

RECIPE = Recipe(start=starts.normal, relax=relax_free, objective=cosine, optimiser=signed_adam, steps=1000, target=1e-7)

INVERGRAD = matching(
    "invergrad",
    RECIPE,
)
