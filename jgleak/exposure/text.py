"""Findings as text: what, why, what instead."""

from __future__ import annotations

import textwrap

from jgleak.exposure.clients import NODES, Clients
from jgleak.exposure.finding import LEVELS, Finding
from jgleak.exposure.registry import Exposure
from jgleak.features import FeatureSpace
from jgleak.gnn.words import model_words
from jgleak.plural import counted

WIDTH = 110
"""Columns of a line, independent of the terminal, so that outputs can be compared."""

MARGIN = 10
"""Columns before the text of a finding."""


def exposure_text(exposure: Exposure, title: str) -> str:
    """The model as it was read, its clients, and all findings by level."""
    deployment = exposure.deployment
    lines = (
        title,
        f"Model: {model_words(deployment.model)}.",
        columns_text(deployment.space),
        clients_text(deployment.clients, deployment.loss),
    )
    parts = [_wrapped(line, "") for line in lines]
    for level, meaning in LEVELS.items():
        found = exposure.of(level)
        if found:
            parts.append(f"{level.upper()}: {meaning}\n" + "\n".join(map(finding_text, found)))
    return "\n\n".join(parts)


def columns_text(space: FeatureSpace) -> str:
    """How the input's columns are scaled, in a sentence: what they show depends on it."""
    if space.mean is not None:
        return f"Input: {space.width} columns, normalised by a public mean and deviation."
    return (
        f"Input: {space.width} columns, raw (not normalised); jgleak attack and audits normalise a data set's columns "
        "unless told otherwise (--no-normalise, normalise = false)."
    )


def clients_text(clients: Clients, loss: str) -> str:
    """How clients train, in a sentence."""
    local = clients.local
    assumed = " (assumed: a usual molecule; --nodes sets it)" if clients.nodes == NODES else ""
    graphs = f"{counted(clients.batch_size, 'graph')} of {counted(clients.nodes, 'node')}{assumed} behind an update"
    if local is None:
        steps = "one gradient"
    else:
        loader = f" on {local.loader} of them each" if local.loader is not None else ""
        beside = f", momentum {local.momentum:g}" * bool(local.momentum)
        beside += f", weight decay {local.weight_decay:g}" * bool(local.weight_decay)
        steps = f"{counted(local.steps, 'step')}{loader} ({local.optimiser}, rate {local.rate:g}{beside})"
    defense = f"; defence {clients.defense}" if clients.defense else ""
    defense += f"; noise of deviation {clients.noise:.1e} on every entry ({clients.whence})" if clients.noise else ""
    return f"Clients: {graphs}; {steps}; loss {loss}{defense}."


def finding_text(finding: Finding) -> str:
    """One finding."""
    lines = [_wrapped(f"{finding.id}: {finding.what}", "  ", "    ")]
    for word, said in (("why", finding.why), ("instead", finding.instead), ("shown by", finding.shown_by)):
        if said:
            lines.append(_wrapped(f"    {word:<{MARGIN}}{said}", "", " " * (MARGIN + 4)))
    return "\n".join(lines)


def _wrapped(text: str, first: str, following: str = "") -> str:
    shape = {"initial_indent": first, "subsequent_indent": following, "break_long_words": False}
    return textwrap.fill(text, WIDTH, **shape, break_on_hyphens=False, drop_whitespace=True, replace_whitespace=False)
