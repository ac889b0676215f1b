"""What a gradient-matching attack knows of one client, as arrays of few shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Num, UInt32

from jgleak.attacks.closed_form.labels import (
    infer_label,
    infer_node_labels,
    infer_target,
    infer_tasks,
    row_hidden,
    tasks_hidden,
)
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.matching.leaves import Untrained, compressed, kept
from jgleak.attacks.relaxations import Group, groups
from jgleak.attacks.side_information import apart, graph_labels
from jgleak.defenses.prune import bounds
from jgleak.features import FeatureSpace
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import over
from jgleak.graph import bucket
from jgleak.pytree import pytree

REPLAYS = ("steps", "none")
"""How an update of several local steps is matched: a guess makes them too, or it is taken for one gradient."""

DIFFERENTIATED = 64
"""Most local steps that a guess makes; more are taken for one gradient."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all clients of one compiled run have in common.

    Attributes:
      model: the attacked model.
      loss: its loss.
      protocol: of the observation.
      groups: the features' columns.
      labels_known: the labels are given or inferred, so they are not searched for. Those of several tasks always are:
        nothing slopes from a present label to a missing one.
      own_params: every client's parameters are its own (seen along its own feature directions).
      scaled: the update was clipped as a whole (``Observation.scaled``), and no label can make up for it: a label
        searched for, or a target that follows from the gradient, absorbs the factor.
      degree_column: the first column of the feature that states degrees, where these follow from known edges.
      local: the local steps that a guess makes; None: one gradient is compared.
      trim: of how many of the first nodes each layer makes the states, where the losses are those of single nodes of
        dummy graphs; None: of all. Of several local steps (``local``) all states are made.
    """

    model: GNN
    loss: str
    protocol: str
    groups: tuple[Group, ...]
    labels_known: bool
    own_params: bool = False
    scaled: bool = False
    degree_column: int | None = None
    local: LocalTraining | None = None
    trim: tuple[int, ...] | None = None


@pytree
@dataclasses.dataclass(frozen=True)
class Problem:
    """One client: ``G`` graphs of ``N`` node slots behind ``T`` gradients.

    Attributes:
      params: the parameters of the round.
      update: the observed gradients, every leaf ``(T, ...)``, kernels as ``leaves.compressed`` has them, frozen leaves
        as ``leaves.Untrained``.
      mask: ``(G, N)`` True for the client's nodes.
      shares: ``(T, G, N)`` weights of the nodes' losses (node tasks; of the graphs' means, otherwise unused).
      mean: ``(m,)`` what the feature space subtracts from the raw columns.
      scale: ``(m,)`` what it multiplies them with afterwards; 0 for a column without deviation.
      nodes: ``(G, N, m)`` encoded features, where they are known.
      adjacency: ``(G, N, N)`` edges, where they are known.
      degrees: ``(G, N, w)`` encoded columns that state degrees, where these follow from the edges.
      labels: distributions over classes ``(G, C)`` or ``(G, N, C)``, targets ``(G,)`` or ``(G, N)``, rows ``(G, T)`` of
        several tasks, where known.
      prior: whatever the attack learnt from public graphs.
      explained: a value of the ``squared`` objective that the noise of the update explains; 0 where none is or asks.
      masks: ``(M, 2)`` the data of ``M`` keys, which draw masks of dropout to average over; None: nothing is averaged.
    """

    params: Params
    update: Params
    mask: Bool[Array | np.ndarray, "G N"]
    shares: Float[Array | np.ndarray, "T G N"]
    mean: Float[Array | np.ndarray, " m"]
    scale: Float[Array | np.ndarray, " m"]
    nodes: Float[Array | np.ndarray, "G N m"] | None = None
    adjacency: Float[Array | np.ndarray, "G N N"] | None = None
    degrees: Float[Array | np.ndarray, "G N w"] | None = None
    labels: Num[Array | np.ndarray, "..."] | None = None
    prior: Any = None
    explained: Float[Array | np.ndarray, ""] = dataclasses.field(default_factory=lambda: np.zeros((), np.float32))
    masks: UInt32[Array | np.ndarray, "M 2"] | None = None


def mask_keys(count: int, key: Array) -> UInt32[np.ndarray, "M 2"]:
    """``count`` keys of masks for ``Problem.masks``."""
    return np.asarray(jax.random.key_data(jax.random.split(jax.random.fold_in(key, 2**31 - 1), count)))


def shared(setting: Setting) -> tuple[str, ...]:
    """Fields of a ``Problem`` that all clients of a run have in common."""
    return ("mean", "scale", "prior") if setting.own_params else ("params", "mean", "scale", "prior")


def pose(
    observation: Observation,
    knowledge: Knowledge,
    *,
    infer: bool,
    basis: Float[np.ndarray, "m r"] | None = None,
    dummy: Float[np.ndarray, "n n"] | None = None,
    prior: Any = None,
    replay: str = "steps",
) -> tuple[Setting, Problem]:
    """An observation and what is known besides, as a device problem.

    Args:
      observation: what the server saw, already reduced where ``basis`` is given.
      knowledge: what is given; the number of nodes must follow from it.
      infer: take the labels from the gradient's signs where that works and they are not given.
      basis: the directions that the observation's feature columns stand for; none: the space's own columns.
      dummy: edges of the dummy graphs, where the attack chooses them itself; nothing of the client's is known then,
        and there are no padding rows.
      prior: what the attack learnt from public graphs.
      replay: a name of ``REPLAYS``.

    Raises:
      ValueError: nothing tells the number of nodes, or the model has fewer slots.
    """
    model, space = observation.model, knowledge.space
    chosen = {} if dummy is None else {"n": None, "sizes": (), "adjacency": dummy, "features": None}
    each = apart(observation, dataclasses.replace(knowledge, **chosen))
    sizes = [one.n for one in each if one.n is not None]
    if not sizes:
        raise ValueError("n: gradient matching searches through matrices of the client's size; give Knowledge(n=...)")
    n = max(sizes)
    slots = model.readout.slots or (bucket(n) if dummy is None else n)
    if n > slots:
        raise ValueError(f"n: the model's flattened readout has {slots} node slots, fewer than the {n} nodes given")
    graphs, width = observation.batch_size, model.in_features
    mask = np.arange(slots) < np.array(sizes)[:, None]
    labels = _labels(observation, knowledge, graphs, n, slots, infer)
    groups_ = groups(space) if basis is None else ()
    absorbed = labels is None or (observation.loss == "mse" and knowledge.labels is None)
    degrees = _degrees(space, each, slots) if basis is None and dummy is None else None
    start = None if degrees is None or space.degree is None else space.offsets[space.index(space.degree)]
    common = (labels is not None, basis is not None, observation.scaled and not absorbed, start)
    made = steps_made(observation) if replay == "steps" else None
    trims = observation.protocol == "target_node" and model.trims
    trim = reach(dummy, model.depth) if dummy is not None and trims else None
    setting = Setting(model, observation.loss, observation.protocol, groups_, *common, made, trim)
    mean, scale = normalisation(space) if basis is None else (np.zeros(width), np.ones(width))

    def rows(x: np.ndarray) -> Float[np.ndarray, "n m"]:
        return space.encode(x) if basis is None else space.encode(x) @ basis

    fields: dict[str, Any] = dict(  # NumPy arrays until a jitted function takes them to the device
        params=jax.tree.map(np.asarray, observation.params),
        update=_observed(observation, graphs * slots * (1 if made is None else made.steps)),
        mask=mask,
        shares=_shares(observation.protocol, mask),
        mean=mean.astype(np.float32),
        scale=scale.astype(np.float32),
        nodes=_fill([one.features for one in each], rows, (graphs, slots, width)),
        adjacency=_fill([one.adjacency for one in each], np.asarray, (graphs, slots, slots)),
        degrees=degrees,
        labels=labels,
        prior=prior,
    )
    return setting, Problem(**fields)


def reach(edges: Float[np.ndarray, "n n"], depth: int) -> tuple[int, ...]:
    """How many of the first nodes have states after each of ``depth`` layers that node 0's last state depends on.

    An edge that is stated in one direction counts in both: an answer's edges have no direction.
    """
    edges = edges + edges.T
    near, sizes = np.arange(len(edges)) == 0, [1]
    for _ in range(depth - 1):
        near = near | edges[near].any(axis=0)
        sizes.append(int(np.flatnonzero(near)[-1]) + 1)
    return tuple(reversed(sizes))


def steps_made(observation: Observation) -> LocalTraining | None:
    """The local steps that are made again with a guess: several ones, on all graphs each, as few as can be
    differentiated; None: there are none such."""
    local = observation.local
    if local is None or not 1 < local.steps <= DIFFERENTIATED:
        return None
    return local if observation.batch_size <= (local.loader or observation.batch_size) else None


def normalisation(space: FeatureSpace) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """``mean`` and ``scale`` of ``encoded = (raw - mean) * scale``."""
    if space.mean is None or space.std is None:
        return np.zeros(space.width, np.float32), np.ones(space.width, np.float32)
    live = space.std > 0
    scale = np.where(live, 1.0 / np.where(live, space.std, 1.0), 0.0)
    return space.mean.astype(np.float32), scale.astype(np.float32)


def _degrees(space: FeatureSpace, each: Sequence[Knowledge], slots: int) -> Float[np.ndarray, "G N w"] | None:
    """The columns that state degrees, from known edges; None where features are known or some graph's edges are not."""
    if space.degree is None or any(one.adjacency is None or one.features is not None for one in each):
        return None
    feature = space.index(space.degree)
    start, width = space.offsets[feature], space.features[feature].columns
    columns = np.zeros((len(each), slots, width), np.float32)
    for graph, one in enumerate(each):
        codes = space.degree_codes(np.asarray(one.adjacency).sum(axis=1).astype(int))
        if (codes < 0).any():
            return None  # the schema's degrees are capped, or others
        x = np.zeros((len(codes), len(space.features)), np.int64)
        x[:, feature] = codes
        columns[graph, : len(x)] = space.encode(x)[:, start : start + width]
    return columns


def _observed(observation: Observation, rows: int) -> Any:
    """The update as the objectives take it: ``T`` gradients in front, kernels ``compressed``, pruned ones ``Kept``."""
    several = slice(None) if observation.gradients else None
    update = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32)[several], observation.update)
    trained = observation.model.evidence(update)
    if observation.pruned:
        least = jax.tree.map(np.asarray, bounds(trained, axis=1))
        seen = jax.tree_util.tree_map_with_path(
            lambda path, leaf, bound: kept(leaf, bound, _is_kernel(path)), trained, least
        )
    else:
        seen = jax.tree_util.tree_map_with_path(
            lambda path, leaf: compressed(leaf, rows) if _is_kernel(path) else leaf, trained
        )
    return over(jax.tree.map(lambda _: Untrained(), update), seen) if observation.model.frozen else seen


def _is_kernel(path: Sequence[Any]) -> bool:
    return path[-1].key.endswith("kernel")


def _shares(protocol: str, mask: Bool[np.ndarray, "G N"]) -> Float[np.ndarray, "T G N"]:
    if protocol == "node_losses":
        return np.eye(*mask.shape[1:], dtype=np.float32)[: mask.sum(), None]
    shares = np.zeros((1, *mask.shape), np.float32)
    if protocol == "target_node":
        shares[:, :, 0] = 1.0 / len(mask)
    else:
        shares[0] = mask / (len(mask) * mask.sum(axis=1, keepdims=True))
    return shares


def _fill(each: Sequence[np.ndarray | None], encode: Any, shape: tuple[int, ...]) -> Float[np.ndarray, "..."] | None:
    """What is known of every graph, padded to ``shape``."""
    out = np.zeros(shape, np.float32)
    for i, known in enumerate(each):
        if known is None:
            return None
        rows = encode(known)
        out[i, : rows.shape[0], : rows.shape[1]] = rows
    return out


def _labels(
    observation: Observation, knowledge: Knowledge, graphs: int, n: int, slots: int, infer: bool
) -> Num[np.ndarray, "..."] | None:
    model, regression, loss = observation.model, observation.loss == "mse", Loss.of(observation.loss)
    known, one_hot = knowledge.labels, np.eye(loss.classes(model.outputs), dtype=np.float32)
    if loss.masked:
        rows = graph_labels(observation, infer_tasks(observation) if known is None else known)
        return np.concatenate(rows).astype(np.float32)
    if known is None and infer:
        known = _inferred(observation)
    if known is None:
        return None
    labels = np.asarray(known)
    if not model.node_level:
        labels = np.broadcast_to(labels.ravel()[:graphs], graphs)
        return labels.astype(np.float32) if regression else one_hot[labels.astype(int)]
    rows = np.zeros((graphs, slots), np.float32 if regression else np.int64)
    if observation.protocol == "target_node":
        targets = labels[:, 0] if labels.ndim == 2 else np.atleast_1d(labels)  # a row of node labels, or its first
        if graphs > 1 and targets.size != graphs:
            raise ValueError(f"labels: {labels.size} given for the targets of {graphs} graphs; give one of each")
        rows[:, 0] = targets[:graphs]
    elif graphs > 1:
        return None  # whose label is whose in a batch of graphs is not known: they are searched for
    elif labels.size != n:
        raise ValueError(f"labels: {labels.size} given for {n} nodes")
    else:
        rows[:, :n] = labels.reshape(graphs, n)
    return rows if regression else one_hot[rows.astype(int)]


def unsupported(observation: Observation, knowledge: Knowledge) -> str | None:
    """Why no gradient can be matched here, or None."""
    if knowledge.labels is not None or not Loss.of(observation.loss).masked:
        return None
    reason = tasks_hidden(observation, knowledge.noise) or row_hidden(observation)
    return None if reason is None else f"{reason}, and gradient matching needs the labels; give them (--know labels)"


def _inferred(observation: Observation) -> Any:
    try:
        if observation.protocol == "node_losses":
            return infer_node_labels(observation)
        return infer_target(observation) if observation.loss == "mse" else infer_label(observation)
    except ConditionFailed:
        return None
