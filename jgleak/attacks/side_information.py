"""The side information on each of the graphs behind an update, and answers for each of them as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Num
from numpy.typing import DTypeLike

from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation


def size(observation: Observation, knowledge: Knowledge) -> int | None:
    """Number of nodes of the client's graph, or of its largest one; None where nothing tells it."""
    for known in (knowledge.adjacency, knowledge.features):
        if known is not None:
            return np.shape(known)[-2]
    return observation.gradients if observation.gradients is not None else knowledge.n


def apart(observation: Observation, knowledge: Knowledge) -> list[Knowledge]:
    """What is known of every graph of a batch as if it were alone: its size, its edges and features without padding.

    One number of nodes, one matrix, is that of all graphs. Labels stay together.
    """
    several = knowledge.sizes or (size(observation, knowledge),) * observation.batch_size
    return [_alone(knowledge, g, n) for g, n in enumerate(several)]


def _alone(knowledge: Knowledge, g: int, n: int | None) -> Knowledge:
    edges, rows = knowledge.adjacency, knowledge.features
    edges = edges[g] if edges is not None and np.ndim(edges) == 3 else edges
    rows = rows[g] if rows is not None and np.ndim(rows) == 3 else rows
    return dataclasses.replace(
        knowledge,
        n=n,
        sizes=(),
        adjacency=None if edges is None else edges[:n, :n],
        features=None if rows is None else rows[:n],
    )


def graph_labels(observation: Observation, labels: Num[np.ndarray, "..."]) -> list[int | float | np.ndarray]:
    """Known labels of a batch's graphs, each as a graph has it: a class, a target, or a row ``(1, T)`` of tasks.

    Raises:
      ValueError: rows of another length than the model's outputs.
    """
    labels, tasks = np.asarray(labels), observation.model.outputs
    if not Loss.of(observation.loss).masked:
        return labels.ravel()[: observation.batch_size].tolist()
    if labels.ndim == 0 or labels.shape[-1] != tasks:
        raise ValueError(f"labels: expected a row of {tasks} tasks for each graph, NaN for missing, got {labels.shape}")
    return list(labels.reshape(-1, 1, tasks)[: observation.batch_size])


def together(matrices: Sequence[Num[np.ndarray, "_n _k"]], dtype: DTypeLike = np.float32) -> Num[np.ndarray, "*B N K"]:
    """Edges or features of every graph as ``Knowledge`` and ``Reconstruction`` have them: padded to the largest with
    zeros, or one graph's alone."""
    rows, columns = np.max([matrix.shape for matrix in matrices], axis=0)
    out = np.zeros((len(matrices), rows, columns), dtype)
    for g, matrix in enumerate(matrices):
        out[g, : matrix.shape[0], : matrix.shape[1]] = matrix
    return out if len(matrices) > 1 else out[0]
