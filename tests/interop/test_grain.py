"""GRAIN's released architectures by their names, against formulas written out in NumPy."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from jgleak.interop import from_arrays
from jgleak.interop.grain import grain_gat, grain_gcn
from jgleak.interop.graphs import dense

M, D, N = 5, 4, 6
EDGES = np.array([[0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 4, 5]])
BOTH = np.concatenate([EDGES, EDGES[::-1]], axis=1)
LOOPED = dense(BOTH, N) + np.eye(N)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, M)).astype(np.float32)


def arrays(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {name: RNG.normal(scale=0.5, size=shape).astype(np.float32) for name, shape in shapes.items()}


def linear(state: dict[str, np.ndarray], name: str, rows: np.ndarray) -> np.ndarray:
    return rows @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def readout(state: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    for name in ("readout.layers.0", "readout.layers.2"):
        rows = np.maximum(linear(state, name, rows), 0)
    return linear(state, "readout.output", rows).mean(axis=0)


def mlp(inputs: int) -> dict[str, tuple[int, ...]]:
    sizes = {"readout.layers.0": (D, inputs), "readout.layers.2": (3, D), "readout.output": (2, 3)}
    return {f"{k}.weight": v for k, v in sizes.items()} | {f"{k}.bias": v[:1] for k, v in sizes.items()}


def test_the_gcn() -> None:
    state = arrays({"gcn.W_list.0": (M, D), "gcn.W_list.1": (D, D)} | mlp(M + D))
    scale = LOOPED.sum(1) ** -0.5
    mixing = scale[:, None] * LOOPED * scale
    states = mixing @ np.maximum(mixing @ X @ state["gcn.W_list.0"], 0) @ state["gcn.W_list.1"]
    output = readout(state, np.concatenate([X, states], axis=1))
    seen = from_arrays(state, state, grain_gcn(), loss="bce", example=(X, BOTH, output))
    model = seen.model
    assert model.readout.sees_input and not model.layers[0].conv.bias and model.readout.mlp.widths == (D, 3, 2)


def test_the_gat() -> None:
    """Scores ``source_i + target_j``, a softmax over ``j``; skip connections a head; ELU between, averaged at last."""
    shapes: dict[str, tuple[int, ...]] = {}
    for i, inputs in enumerate((M, 2 * D)):
        shapes |= {f"gat_net.{i}.{part}.weight": (2 * D, inputs) for part in ("linear_proj", "skip_proj")}
        shapes |= {f"gat_net.{i}.scoring_fn_{part}": (1, 2, D) for part in ("target", "source")}
        shapes[f"gat_net.{i}.bias"] = (D if i else 2 * D,)
    state = arrays(shapes | mlp(D))
    rows = X.astype(np.float64)
    for i in (0, 1):
        own = {k.removeprefix(f"gat_net.{i}."): v for k, v in state.items()}
        values = (rows @ own["linear_proj.weight"].T).reshape(N, 2, D)
        source, target = ((values * own[f"scoring_fn_{part}"]).sum(-1) for part in ("source", "target"))
        scores = source[:, None] + target[None, :]
        scores = np.where(scores > 0, scores, 0.2 * scores) + np.where(LOOPED > 0, 0, -np.inf)[:, :, None]
        heads = np.einsum("vuh,uhd->vhd", softmax(scores, axis=1), values)
        heads = heads + (rows @ own["skip_proj.weight"].T).reshape(N, 2, D)
        rows = (heads.mean(axis=1) if i else heads.reshape(N, -1)) + own["bias"]
        rows = rows if i else np.where(rows > 0, rows, np.expm1(rows))
    seen = from_arrays(state, state, grain_gat(), loss="bce", example=(X, BOTH, readout(state, rows)))
    skip = state["gat_net.1.skip_proj.weight"].T.reshape(2 * D, 2, D)
    np.testing.assert_allclose(seen.params["layers_1"]["conv"]["residual_kernel"], skip.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(seen.update["layers_1"]["conv"]["residual_kernel"], skip.sum(axis=1), rtol=1e-6)
    assert [layer.features for layer in seen.model.layers] == [2 * D, D] and seen.model.readout.mlp.act == "relu"
