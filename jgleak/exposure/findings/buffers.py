"""Returned running statistics of batch normalisation: means and variances of the client's own rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.gnn.tree import at


def buffers(deployment: Deployment) -> Iterator[Finding]:
    """What norms in training mode return."""
    model, clients = deployment.model, deployment.clients
    norms = {"/".join(path): norm for path, norm in model.norms.items() if norm.returns_statistics}
    if not norms:
        return
    columns = {place: int(np.shape(at(deployment.params, tuple(place.split("/")))["mean"])[0]) for place in norms}
    where = ", ".join(f"{place} ({width} columns)" for place, width in columns.items())
    details = {"norms": columns, "ways": sorted(clients.ways)}
    name, by = "buffers", "fact:batch_statistics"
    if not clients.statistics:
        yield Finding(
            *(name, "closed", "Running statistics of batch normalisation are not returned."),
            f"the client keeps those of {where}.",
            *("returning them, as averaging whole states does", by),
            details,
        )
        return
    keep = "keep running statistics on the client (FedBN), or normalise rows alone (LayerNorm)"
    if clients.steps > 1:
        yield Finding(
            *(name, "open", "Running statistics are returned, as an average over several steps."),
            f"{where} move towards every step's mean and variance in turn; the batch's can be solved for after one "
            f"step, and here there are {clients.steps}.",
            *(keep, by, details),
        )
        return
    if clients.protection.inside:
        yield Finding(
            *(name, "open", "Running statistics are returned, of activations to which the client added noise."),
            f"{where} show the mean and variance of what entered, with the noise of {clients.protection}.",
            *(keep, by, details),
        )
        return
    yield Finding(
        *(name, "leaks", "Running statistics give the mean and variance of the client's rows at every norm."),
        f"after = (1 - momentum) before + momentum batch is solved for the batch's at {where}: "
        f"{2 * sum(columns.values())} equations on the nodes, without labels, whatever a defence does to the gradient.",
        *(keep, by, details),
    )
