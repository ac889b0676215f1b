"""Cutting client subgraphs from a Network: the sampling schemes of GRAIN and GLG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int

from jgleak.datasets.dataset import Dataset
from jgleak.datasets.fit import NODES, fit_apart
from jgleak.datasets.network import Network
from jgleak.datasets.tally import Tally
from jgleak.features import FeatureSpace
from jgleak.graph import Graph

Scheme = Literal["balls", "grow", "sampled_balls"]
Sizes = Sequence[tuple[float, int, int]]

GRAIN_SIZES: Sizes = ((0.2, 1, 10), (0.4, 10, 20), (0.3, 20, 30), (0.1, 30, 40))
"""Share, smallest and largest size of client subgraphs (GRAIN, section 6.1)."""

HOPS = 3
OTHERS = 200
"""Further subgraphs whose degrees stand for what is public."""

ATTEMPTS = 5000
"""Draws a client before its size range is given up."""


def clients(
    network: Network,
    scheme: Scheme,
    *,
    graphs: int = 100,
    sizes: Sizes = GRAIN_SIZES,
    labels: Literal["graph", "node"] = "graph",
    seed: int,
) -> Dataset:
    """Client subgraphs of a network, drawn independently of each other (they may overlap).

    Nodes keep the network's order inside a client. The normalisation of the space does not depend on which clients are
    drawn: it is that of all nodes of the network (the clients' among them), of degrees that of ``OTHERS`` further
    subgraphs, drawn alike, and of one node of every degree that a client can have. The report goes on from the
    network's own; its rows are draws. A draw is rejected, and counted, when its size is out of range, when no member's
    class is known (``graph``) or when some member's is not (``node``).

    Args:
      network: where to cut.
      scheme: ``balls`` (GRAIN, citation networks), ``grow`` (one node at a time) or ``sampled_balls`` (GLG).
      graphs: how many clients.
      sizes: share of the clients, smallest and largest number of nodes; shares must sum to 1.
      labels: ``graph`` labels a client with its most common known class, the smallest of equally common ones;
        ``node`` labels each node.
      seed: seeds ``numpy.random.default_rng``.

    Raises:
      ValueError: an argument out of range, or no client of a size range in ``ATTEMPTS`` draws.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme: no sampling scheme {scheme!r}; known are {', '.join(SCHEMES)}")
    if labels not in ("graph", "node"):
        raise ValueError(f"labels: must be 'graph' or 'node', got {labels!r}")
    rng = np.random.default_rng(seed)
    tally, cut = Tally.resume(network.report), []
    for (_, low, high), count in zip(sizes, _counts(sizes, graphs), strict=True):
        cut += [_client(network, scheme, low, high, labels, rng, tally) for _ in range(count)]
    drawn = [Graph(g.x, g.edges, g.y, f"{network.name} client {i} of seed {seed}") for i, g in enumerate(cut)]
    task = "node" if labels == "node" else "binary" if network.classes == 2 else "multiclass"
    rejected = sum(tally.dropped.values()) - sum(network.report.dropped.values())
    report = tally.report(len(drawn) + rejected, len(drawn))
    return Dataset(network.name, drawn, _public(network, scheme, sizes, labels, seed), task, network.classes, report)


def _public(network: Network, scheme: Scheme, sizes: Sizes, labels: str, seed: int) -> FeatureSpace:
    """The space with statistics that anyone may know: of all nodes' features, of degrees in other subgraphs."""
    rows = (network.x[start : start + NODES].toarray() for start in range(0, network.n, NODES))
    degrees: list[Int[np.ndarray, " n"]] = []
    possible = range(min(max(high for _, _, high in sizes), len(network.space.features[-1].values)))
    if network.space.degree is not None:
        degrees = [graph.degree for graph in _others(network, scheme, sizes, labels, seed)]
    return fit_apart(network.space, rows, degrees, possible)


def _others(network: Network, scheme: Scheme, sizes: Sizes, labels: str, seed: int) -> Iterator[Graph]:
    """``OTHERS`` further subgraphs, of the same mix of sizes; fewer of sizes that hardly occur."""
    rng, tally = np.random.default_rng([seed, 1]), Tally()
    for (_, low, high), count in zip(sizes, _counts(sizes, OTHERS), strict=True):
        for _ in range(count):
            try:
                yield _client(network, scheme, low, high, labels, rng, tally)
            except ValueError:
                break


def _counts(sizes: Sizes, graphs: int) -> list[int]:
    """Clients a size range: shares of ``graphs``, rounded so that they add up."""
    if graphs < 1:
        raise ValueError(f"graphs: must be at least 1, got {graphs}")
    if abs(sum(share for share, _, _ in sizes) - 1) > 1e-9 or any(share < 0 for share, _, _ in sizes):
        raise ValueError(f"sizes: shares must be non-negative and sum to 1, got {[s[0] for s in sizes]}")
    for _, low, high in sizes:
        if not 1 <= low <= high:
            raise ValueError(f"sizes: expected 1 <= smallest <= largest, got {low}..{high}")
    ends = np.rint(np.cumsum([share for share, _, _ in sizes]) * graphs).astype(int)
    return np.diff(ends, prepend=0).tolist()


def _client(
    network: Network, scheme: Scheme, low: int, high: int, labels: str, rng: np.random.Generator, tally: Tally
) -> Graph:
    for _ in range(ATTEMPTS):
        nodes = SCHEMES[scheme](network, low, high, rng)
        if nodes is None:
            tally.drop("draw outside the size range")
            continue
        classes = network.y[nodes]
        known = classes[classes >= 0]
        if known.size == 0 or (labels == "node" and known.size < classes.size):
            tally.drop("draw with unknown classes")
            continue
        client = network.subgraph(nodes)
        return client if labels == "node" else Graph(client.x, client.edges, int(np.bincount(known).argmax()))
    raise ValueError(f"sizes: no client of {low}..{high} nodes in {ATTEMPTS} draws of {network.name}; widen the range")


def ball(network: Network, centre: int, limit: int | None = None) -> Int[np.ndarray, " n"] | None:
    """Nodes at most ``HOPS`` edges from ``centre``, in increasing order; None when more than ``limit``."""
    inside, frontier = {centre}, {centre}
    for _ in range(HOPS):
        reached = {int(v) for u in frontier for v in network.neighbours(u)}
        frontier = reached - inside
        inside |= frontier
        if limit is not None and len(inside) > limit:
            return None
    return np.array(sorted(inside))


def balls(network: Network, low: int, high: int, rng: np.random.Generator) -> Int[np.ndarray, " n"] | None:
    """GRAIN's scheme for citation networks: a ball of ``low..high`` nodes around a random node, united with the balls
    around two random members as long as the union has at most ``high`` nodes; None when the first ball does not fit."""
    nodes = ball(network, int(rng.integers(network.n)), high)
    if nodes is None or nodes.size < low:
        return None
    for _ in range(2):
        further = ball(network, int(rng.choice(nodes)), high)
        if further is not None and (union := np.union1d(nodes, further)).size <= high:
            nodes = union
    return nodes


def grow(network: Network, low: int, high: int, rng: np.random.Generator) -> Int[np.ndarray, " n"] | None:
    """Grow a connected subgraph: draw its size from ``low..high``, start at a random node and add a random outside
    neighbour of a random member that has one, until the size is reached; None when the component is too small."""
    size = int(rng.integers(low, high + 1))
    inside: set[int] = set()
    member, open_members = int(rng.integers(network.n)), []
    while True:
        inside.add(member)
        open_members.append(member)
        if len(inside) == size:
            return np.array(sorted(inside))
        while open_members:
            k = int(rng.integers(len(open_members)))
            outside = [int(v) for v in network.neighbours(open_members[k]) if int(v) not in inside]
            if outside:
                member = outside[int(rng.integers(len(outside)))]
                break
            open_members.pop(k)
        else:
            return None


def sampled_balls(network: Network, low: int, high: int, rng: np.random.Generator) -> Int[np.ndarray, " n"] | None:
    """GLG's scheme (section 5.1): the ball around a random node, thinned where it has more than ``high`` nodes.

    GLG attacks whole balls, which in these networks have thousands of nodes. A ball that is too large is built hop by
    hop instead: of the new neighbours of the last hop a uniform sample is taken, of at most the free places divided by
    the hops to come. None when fewer than ``low`` nodes result.
    """
    centre = int(rng.integers(network.n))
    nodes = ball(network, centre, high)
    if nodes is None:
        inside, frontier = [centre], [centre]
        for left in range(HOPS, 0, -1):
            fresh = np.setdiff1d(np.concatenate([network.neighbours(u) for u in frontier]), inside)
            frontier = rng.permutation(fresh)[: (high - len(inside)) // left].tolist()
            if not frontier:
                break
            inside += frontier
        nodes = np.array(sorted(inside))
    return nodes if nodes.size >= low else None


SCHEMES: Mapping[Scheme, Callable[[Network, int, int, np.random.Generator], Int[np.ndarray, " n"] | None]] = {
    "balls": balls,
    "grow": grow,
    "sampled_balls": sampled_balls,
}
"""One draw of a client's nodes, by scheme; None rejects the draw."""
