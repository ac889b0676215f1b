"""Widths against numbers of nodes: a gradient's span excludes rows only while fewer rows enter than it has
dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jgleak.attacks.facts.fact import LINEAR
from jgleak.attacks.span.leak_points import leak_points
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.features import combinations
from jgleak.plural import counted

SPANNED = ("census", "grain")
"""The attacks that begin with the feature vectors in the span of the input's gradient."""


class Crowd(NamedTuple):
    """More rows than the spans of the input's gradients have room for.

    Attributes:
      rows: how many different ones may enter.
      most: with how many a span still excludes others.
    """

    rows: int
    most: int


def crowd(deployment: Deployment) -> Crowd | None:
    """What hides all nodes from ``SPANNED``: every span of the input's gradients may fill its space; None: not all may,
    or there is none."""
    points = [point for point in _points(deployment) if point["hop"] == 0]
    if not points or any(point["rows"] <= point["most"] for point in points):
        return None
    return Crowd(points[0]["rows"], max(point["most"] for point in points))


def spans(deployment: Deployment) -> Iterator[Finding]:
    """All leak points, and whether their spans can fill their space."""
    clients, points = deployment.clients, _points(deployment)
    if not points:
        return
    entering = clients.nodes * clients.batch_size
    full = [point for point in points if point["rows"] > point["most"]]
    tightest = min(points, key=lambda point: point["most"] - point["rows"])
    said = f"of {len(points)} checks the tightest is {_named(tightest)}, with room for {tightest['most']}"
    if full:
        said = f"{len(full)} of {len(points)} checks have room for fewer, {_named(tightest)} for {tightest['most']}"
    each = f"{counted(clients.batch_size, 'graph')} of {counted(clients.nodes, 'node')}"
    if crowd(deployment) is not None:
        nothing = f"and {' and '.join(SPANNED)} find nothing"
        what = f"Spans of gradients may fill their spaces: then they exclude no row, {nothing}."
    elif full:
        what = "Some spans of gradients may fill their spaces: then these exclude no row."
    else:
        what = "Spans of gradients contain the rows of all nodes and exclude others."
    changed = sorted(clients.ways - {*LINEAR})
    if changed:
        what = f"{what.removesuffix('.')}; under {', '.join(changed)} rows may lie outside."
    yield Finding(
        *("spans", "open", what, f"up to {entering} different rows enter ({each}); {said}."),
        "narrower layers or more nodes in an update fill them; wider layers or fewer graphs leave room"
        if full
        else f"more than {tightest['most']} different rows in an update, or narrower layers, fill it",
        "attack:census",
        {"points": points},
    )


def _points(deployment: Deployment) -> list[dict[str, Any]]:
    """Every leak point, with the rows for which its span has room and those that may enter."""
    seen, clients = deployment.seen, deployment.clients
    if seen is None or seen.adaptive:
        return []
    entering = clients.nodes * clients.batch_size
    points: list[dict[str, Any]] = []
    for hop in range(deployment.model.depth + 1):
        for point in leak_points(seen, hop):
            rows = int(min(entering, combinations(deployment.space))) if hop == 0 else entering
            shape = point.gradient.shape
            points.append(
                {
                    "check": point.name,
                    "hop": hop,
                    "shape": list(shape),
                    "most": room(shape),
                    "rows": rows,
                    "condition": point.condition,
                }
            )
    return points


def room(shape: tuple[int, ...]) -> int:
    """Most independent rows with which a gradient of this shape does not fill its space (``Subspace.full``)."""
    return min(shape) - 1


def _named(point: dict[str, Any]) -> str:
    return f"the {point['check']} check of {point['hop']}-hop blocks ({' x '.join(map(str, point['shape']))})"
