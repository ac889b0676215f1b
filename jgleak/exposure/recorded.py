"""How often attacks succeeded where records exist of what clients send: the words of ``jgleak check``."""

from __future__ import annotations

from collections.abc import Iterable

from jgleak.attacks.census.prior import resolved
from jgleak.attacks.facts.fact import BATCH, NOISE, ONE, PRUNING, STEPS
from jgleak.exposure.deployment import Deployment

PLACE = "README, What leaks when"
"""Where the numbers behind the words stand; a test compares both with the record."""

NONE = "no record exists for such clients (an audit measures it)"

OTHER = "no record exists for such features: the records are of molecules, by columns of atoms (an audit measures it)"
"""The same where the columns are not those of atoms, whatever the protocol."""

BATCHES = 8
"""Graphs behind an update in the record of batches; larger batches have no word."""

SHARES = {"all": 1.0, "nearly all": 0.9, "most": 0.5, "some": 0.25, "few": 1e-9, "none": 0.0}
"""The words, each with the smallest share of molecules that it stands for."""

ONE_GRAPH = "the gradient of one graph"
TRAINING_NORMS = "one graph, GIN with BatchNorm in training mode"

RECORDED = {
    ONE_GRAPH: {"census": "all", "tableak": "few", "dlg": "few"},
    TRAINING_NORMS: {"census": "nearly all", "tableak": "none"},
    "the mean gradient of 8 graphs": {"census": "most", "dlg": "none"},
    "weights after 5 steps of .01 on one graph": {"census": "nearly all"},
    "one graph, a tenth of the entries sent": {"census": "none", "tableak": "few"},
    "one graph, Gaussian noise of .001": {"census": "few", "tableak": "few"},
}
"""Rows of ``benchmarks/results/what_leaks.md``, and how many of its molecules each attack rebuilt exactly."""

SINGLE = {"one step of .01": "most", "five steps of .003": "few"}
"""Of 50 molecules behind GRAIN's GCN, one a client that returns weights in 32 bits: how many the census rebuilt exactly
(``benchmarks/results/local_steps.md``)."""

_ROWS = {
    frozenset({BATCH}): "the mean gradient of 8 graphs",
    frozenset({STEPS}): "weights after 5 steps of .01 on one graph",
    frozenset({PRUNING}): "one graph, a tenth of the entries sent",
    frozenset({NOISE}): "one graph, Gaussian noise of .001",
}


def row_of(deployment: Deployment) -> str | None:
    """The row of the record that is nearest to what these clients send, or None where none is near."""
    ways, normed = deployment.clients.ways, deployment.model.returns_statistics
    if ways == {ONE}:
        return TRAINING_NORMS if normed else ONE_GRAPH
    if normed or deployment.clients.batch_size > BATCHES:
        return None
    return _ROWS.get(ways)


def how_often(deployment: Deployment, attacks: Iterable[str]) -> str:
    """How often attacks rebuilt molecules exactly, in a clause: by the nearest row of the record, or that there is
    none, as for columns that name no atoms."""
    if resolved("auto", deployment.space) != "molecule":
        return OTHER
    row = row_of(deployment)
    known = {} if row is None else RECORDED[row]
    said = {name: known[name] for name in attacks if name in known}
    if not said:
        return NONE
    model, each = "" if row == TRAINING_NORMS else "GRAIN's GCN, ", ", ".join(f"{name} {said[name]}" for name in said)
    found = f"of 40 Tox21 molecules ({model}random weights; {row}), rebuilt exactly: {each} ({PLACE})"
    if "census" not in said or deployment.clients.local is None or deployment.clients.inexact:
        return found
    single = ", ".join(f"after {steps} {share}" for steps, share in SINGLE.items())
    return f"{found}, from weights that were not rounded; returned in 32 bits, of 50: {single} (docs, Local steps)"
