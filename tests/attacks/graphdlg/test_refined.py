"""GraphDLG's refinement: where it begins, what pulls it back, and the gradient's form that shows the embedding."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.graphdlg.refined import Pull, Start, _observed
from jgleak.attacks.matching.leaves import Compressed, Dense, Kept, Whole
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.matching.starts import normal
from jgleak.federated import Knowledge


def test_edges_begin_half_way_between_the_embedding_and_the_places(lab: Any) -> None:
    """The decoder knows more places than there are slots; the places go by the graph's size."""
    rng, asked = np.random.default_rng(0), list[Any]()
    decoded, places = (rng.normal(size=(12, 12)).astype(np.float32) for _ in range(2))

    def logits(embedding: Any) -> Any:
        asked.append(embedding)
        return jnp.asarray(decoded)

    habit = SimpleNamespace(
        edge_logits=lambda n, slots: n * jnp.asarray(places[:slots, :slots]),
        node_logits=lambda n, slots: jnp.full((slots, lab.space.width), n, jnp.float32),
    )
    prior = SimpleNamespace(decoder=SimpleNamespace(logits=logits), positions=habit)
    truth, model = lab.random(7, 9), lab.model(hidden=16, readout="pooled", readout_widths=(), last_act=True)
    observation = lab.observe(model, truth, loss="ce")
    setting, problem = pose(observation, Knowledge(lab.space, n=7), infer=True, prior=prior)
    begun, drawn = (start(setting, problem, jax.random.key(0)) for start in (Start(0.5), normal))
    anchor = (decoded[:8, :8] + 7 * places[:8, :8]) / 2
    np.testing.assert_allclose(begun["anchor"][0], anchor, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(begun["adjacency"][0], anchor + 0.5 * drawn["adjacency"][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(begun["nodes"], 7 + 0.5 * drawn["nodes"], rtol=1e-5)
    np.testing.assert_allclose(asked[0], pooled_embedding(model, observation.update), rtol=1e-4, atol=1e-6)
    known = Knowledge(lab.space, adjacency=truth.adjacency)
    setting, problem = pose(observation, known, infer=True, prior=prior)
    assert set(Start()(setting, problem, jax.random.key(0))) == {"nodes"}


def test_edges_go_a_share_of_the_way_back(lab: Any) -> None:
    posed = pose(lab.observe(lab.model(), lab.random(7, 9)), Knowledge(lab.space, n=7), infer=True)
    edges, anchor = np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
    variables = {"adjacency": jnp.asarray(edges), "anchor": jnp.asarray(anchor), "nodes": jnp.ones(3)}
    pulled = Pull(0.25)(*posed, variables)
    np.testing.assert_allclose(pulled["adjacency"], 0.75 * edges + 0.25 * anchor, rtol=1e-5, atol=1e-6)
    assert pulled["anchor"] is variables["anchor"] and pulled["nodes"] is variables["nodes"]
    assert Pull()(*posed, {"nodes": variables["nodes"]}) == {"nodes": variables["nodes"]}


@pytest.mark.parametrize("form", ["whole", "dense", "kept", "compressed", "bias"])
def test_a_gradient_of_any_form_is_the_one_observed(form: str) -> None:
    rng = np.random.default_rng(0)
    parts: Any = rng.normal(size=(5, 2)), np.array([3.0, 0.5]), rng.normal(size=(4, 2))
    gradient: Any = (parts[0] * parts[1]) @ parts[2].T
    least: Any = np.zeros((1, 1, 1))
    leaf: Any = {
        "whole": Whole(gradient),
        "dense": Dense(gradient.T[None]),
        "kept": Kept(gradient.T[None], least),
        "compressed": Compressed(*parts),
        "bias": gradient[None],
    }[form]
    np.testing.assert_allclose(_observed(leaf), gradient)
