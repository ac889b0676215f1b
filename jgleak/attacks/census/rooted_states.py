"""States of rooted neighbourhoods, each embedded once: the graphs of a search share most of them."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from jgleak.gnn import GNN, Layer, Params

BATCH = 128
"""Neighbourhoods embedded at once: a compiled shape."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Rows:
    """A growing array of rows, whose capacity doubles.

    Args:
      first: the first rows; later rows have the same shape and type.
    """

    def __init__(self, first: np.ndarray) -> None:
        self.array, self.size = np.array(first), first.shape[0]

    def add(self, rows: np.ndarray) -> None:
        """More rows."""
        size = self.size + rows.shape[0]
        if size > self.array.shape[0]:
            array = np.zeros((2 * size, *self.array.shape[1:]), self.array.dtype)
            array[: self.size] = self.array[: self.size]
            self.array = array
        self.array[self.size : size] = rows
        self.size = size


@dataclasses.dataclass
class _Hop:
    """Neighbourhoods of some number of hops, fewer than there are layers.

    Attributes:
      numbers: the number of each neighbourhood, by its hash.
      entries: the root's entry.
      history: the root's states after every layer so far, side by side.
      projected: the next layer's projection of the last of these states.
    """

    numbers: dict[int, int]
    entries: Rows
    history: Rows
    projected: Rows


class RootedStates:
    """The states of the nodes of many graphs.

    Args:
      model: the model.
      params: its parameters.
      inputs: the rows that nodes may have, one an entry ``(E, m)``.
      degrees: number of neighbours that an entry has ``(E,)``.
      most: most neighbours of a node.
    """

    def __init__(
        self, model: GNN, params: Params, inputs: Float[np.ndarray, "E m"], degrees: Int[np.ndarray, " E"], most: int
    ) -> None:
        self.model, self.params, self.most = model, params, most
        self.inputs, self.degrees = inputs.astype(np.float32), degrees.astype(np.float32)
        encoded = np.asarray(model.apply({"params": params}, jnp.asarray(self.inputs), method="encode"))
        hop = _Hop({}, Rows(np.arange(degrees.size)), Rows(encoded[:, :0]), Rows(self._projected(0, encoded)))
        self.hops, self.tops = [hop], dict[int, int]()
        self.new = list[tuple[Float[np.ndarray, "K m"], Float[np.ndarray, "K D"]]]()

    def numbers(self, adjacency: Bool[np.ndarray, "P N N"], entries: Int[np.ndarray, "P N"]) -> Int[np.ndarray, "P N"]:
        """The number of the neighbourhood that each node of each graph has, of as many hops as there are layers.

        Neighbourhoods are identified by hashes of 64 bits. With a million neighbourhoods two have the same hash at a
        probability below 1e-7; that would mislead the search, but not its answer, since graphs are compared by their
        gradients.

        Args:
          adjacency: without self-loops; no node has more than ``most`` neighbours.
          entries: what each node is; those of padding, which have no edges, do not matter.
        """
        order = np.argsort(~adjacency, axis=-1, kind="stable")[:, :, : self.most]
        around = np.where(np.arange(order.shape[2]) < adjacency.sum(axis=-1)[..., None], order, -1)
        names, numbers = _mixed((entries + 1).astype(np.uint64) * _ODD), entries
        for layer in range(self.model.depth):
            # a sum of hashes, for it does not depend on the order of neighbours
            sums = (adjacency * _mixed(names + _ODD)[:, None, :]).sum(axis=-1, dtype=np.uint64)
            names = _mixed(names * np.uint64(3) + sums)
            numbers = self._numbered(layer, names, numbers, around)
        return numbers

    def taken(self) -> list[tuple[Float[np.ndarray, "_n m"], Float[np.ndarray, "_n D"]]]:
        """For the neighbourhoods of as many hops as there are layers that are new since the last call, by number: the
        node's input row, and the state that the readout sees."""
        new, self.new = self.new, []
        return new

    def _numbered(
        self,
        layer: int,
        names: Shaped[np.ndarray, "P N"],
        below: Int[np.ndarray, "P N"],
        around: Int[np.ndarray, "P N W"],
    ) -> Int[np.ndarray, "P N"]:
        """The numbers of neighbourhoods of one hop more than ``below``; new ones are embedded."""
        last = layer + 1 == self.model.depth
        known = self.tops if last else self.hops[layer + 1].numbers if len(self.hops) > layer + 1 else dict[int, int]()
        found, new = list[int](), list[int]()
        for place, name in enumerate(names.ravel().tolist()):
            if name not in known:
                known[name] = len(known)
                new.append(place)
            found.append(known[name])
        if new:
            graph, node = np.divmod(np.array(new), names.shape[1])
            beside = around[graph, node]
            others = np.where(beside >= 0, below[graph[:, None], np.maximum(beside, 0)], -1)
            self._embedded(layer, known, np.c_[below[graph, node], others])
        return np.array(found).reshape(names.shape)

    def _embedded(self, layer: int, known: dict[int, int], stars: Int[np.ndarray, "K W"]) -> None:
        """Add the neighbourhoods of ``stars``, each a row of a centre and its neighbours."""
        below, roots, parts = self.hops[layer], stars[:, 0], list[np.ndarray]()
        weights, degrees = self.model.layer_of(self.params, layer), self.degrees[below.entries.array]
        for start in range(0, stars.shape[0], BATCH):
            part = stars[start : start + BATCH]
            padded = np.pad(part, ((0, BATCH - part.shape[0]), (0, 0)), mode="edge")
            star = np.maximum(padded, 0)
            state = _centred(self.model.layers[layer], weights, below.projected.array[star], degrees[star], padded >= 0)
            parts.append(np.asarray(state)[: part.shape[0]])
        states, entries = np.concatenate(parts), below.entries.array[roots]
        history = np.concatenate([below.history.array[roots], states], axis=1)
        if layer + 1 == self.model.depth:
            ends = np.cumsum([one.features for one in self.model.layers])[:-1]
            self.new.append((self.inputs[entries], self.model.jumping.combine(np.split(history, ends, axis=1))))
            return
        projected = self._projected(layer + 1, states)
        if len(self.hops) == layer + 1:
            self.hops.append(_Hop(known, Rows(entries), Rows(history), Rows(projected)))
            return
        hop = self.hops[layer + 1]
        for rows, more in ((hop.entries, entries), (hop.history, history), (hop.projected, projected)):
            rows.add(more)

    def _projected(self, layer: int, states: Float[np.ndarray, "K D"]) -> Float[np.ndarray, "K P"]:
        """A layer's projection of states."""
        weights, parts = self.model.layer_of(self.params, layer), list[np.ndarray]()
        for start in range(0, states.shape[0], BATCH):
            part = states[start : start + BATCH]
            padded = np.pad(part, ((0, BATCH - part.shape[0]), (0, 0)))
            parts.append(np.asarray(_alone(self.model.layers[layer], weights, padded))[: part.shape[0]])
        return np.concatenate(parts)


@partial(jax.jit, static_argnames=("layer",))
def _alone(layer: Layer, weights: Params, states: Float[Array, "B F"]) -> Float[Array, "B P"]:
    sent: Any = layer.by(weights, "sent", states, jnp.zeros(states.shape[0], jnp.int32))
    return layer.by(weights, "project", sent)


@partial(jax.jit, static_argnames=("layer",))
def _centred(
    layer: Layer,
    weights: Params,
    projected: Float[Array, "B W P"],
    degrees: Float[Array, "B W"],
    present: Bool[Array, "B W"],
) -> Float[Array, "B D"]:
    return layer.by(weights, "centred", projected, degrees, present)


def _mixed(names: Shaped[np.ndarray, "*S"]) -> Shaped[np.ndarray, "*S"]:
    """Well mixed bits of each number (the finaliser of SplitMix64, Steele et al., OOPSLA 2014)."""
    names = (names ^ (names >> np.uint64(30))) * _MIXERS[0]
    names = (names ^ (names >> np.uint64(27))) * _MIXERS[1]
    return names ^ (names >> np.uint64(31))
