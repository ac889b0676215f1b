"""Linear maps that nodes' input rows enter as they are: rows of their gradients show which values occur."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jgleak.attacks.facts.evidence import input_places
from jgleak.attacks.facts.fact import ADAM, CLIPPING, DECAY, LINEAR, NOISE, PROTOCOLS
from jgleak.attacks.facts.feature_values import values_under
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.gnn import LinearEncoder
from jgleak.gnn.tree import at

FACT = "fact:feature_values"
SHOWN = {
    False: "The update shows which feature values occur",
    True: "The update may show which feature values occur",
}
"""True: it depends on noise, on how many values occur, or on a combination of alterations that no fact covers."""


def input_rows(deployment: Deployment) -> Iterator[Finding]:
    """The maps that input rows enter, except sums of embedding tables."""
    if not embeds(deployment):
        yield rows_finding(deployment, "input-rows", "rows of the gradient at absent values stay as they are")


def embeds(deployment: Deployment) -> bool:
    """True where the encoder is a sum of embedding tables: a linear map without a bias on one-hot columns."""
    encoder, space = deployment.model.encoder, deployment.space
    onehot = all(feature.kind == "onehot" for feature in space.features)
    return isinstance(encoder, LinearEncoder) and not encoder.bias and onehot and space.mean is None


def rows_finding(deployment: Deployment, name: str, rule: str) -> Finding:
    """The finding about the maps that input rows enter."""
    model, space, clients = deployment.model, deployment.space, deployment.clients
    places = {"/".join(place): np.shape(at(deployment.params, place)) for place in exposed(deployment)}
    details = {"places": {place: list(shape) for place, shape in places.items()}, "ways": sorted(clients.ways)}
    if not places:
        why = f"frozen: {', '.join(model.frozen)}" if model.frozen else "messages pass an activation before any map"
        return Finding(
            *(name, "closed", "No linear map that is trained takes the nodes' input rows.", f"{why}."),
            *("training such a map, or an encoder before the first layer", FACT),
            details,
        )
    where = ", ".join(f"{place} ({' x '.join(map(str, shape))})" for place, shape in places.items())
    if not any(feature.kind in ("onehot", "binary") for feature in space.features):
        return Finding(
            *(name, "closed", "No feature value shows by itself."),
            f"input rows enter {where}, and their columns are numbers: a row of the gradient shows only that some "
            "node's number is not 0.",
            *("one-hot or embedded columns", FACT),
            details,
        )
    normalised, noisy = space.mean is not None, NOISE in clients.ways and deployment.knowledge.noise is not None
    missing = clients.ways & set(PROTOCOLS) - set(values_under(normalised=normalised, noisy=noisy))
    if missing:
        return Finding(
            *(name, "closed", "Which feature values occur is not proved."),
            f"input rows enter {where}, and of {'normalised' if normalised else 'raw'} columns nothing is proved under "
            f"{', '.join(sorted(missing))}.",
            *("raw columns" if normalised else f"updates without {', '.join(sorted(missing))}", FACT),
            details,
        )
    rule = (
        "in normalised columns rows of absent values are multiples of one row, which shows where most values are absent"
        if normalised
        else f"{rule}{' except for the decay' * (DECAY in clients.ways)}, as long as some value does not occur"
    )
    unsure = noisy or normalised or not _composes(clients.ways)
    together = _together(clients.ways, unsure)
    masked = "; dropout masks entries of the rows and adds no value" if model.masks_input else ""
    return Finding(
        *(name, "open" if unsure else "leaks", f"{SHOWN[unsure]} among the client's nodes."),
        f"input rows enter {where}; {rule}, under {', '.join(sorted(clients.ways))}{together}{masked}.",
        *(
            "freeze these maps" if embeds(deployment) else "freeze these maps, or normalise the columns and quantise",
            FACT,
        ),
        details,
    )


def _composes(ways: frozenset[str]) -> bool:
    """True where rows of absent values remain visible after all of these alterations together: each keeps zeros. Weight
    decay turns them into multiples of the weights, which are visible as long as no defence changes them."""
    return ways <= {*LINEAR, ADAM} - {CLIPPING} if DECAY in ways else ways <= set(PROTOCOLS)


def _together(ways: frozenset[str], unsure: bool) -> str:
    """Remarks on the combination of alterations."""
    unknown = sorted(ways - set(PROTOCOLS))
    said = "" if len(ways) < 2 else " (each proved by itself)" if unsure else " (together too)"
    said += f"; no fact accounts for {', '.join(unknown)}" if unknown else ""
    if {ADAM, DECAY} <= ways:
        said += "; the decay is decoupled (AdamW): as a part of the gradient (Adam with L2) it moves every row"
    return said


def exposed(deployment: Deployment) -> list[tuple[str, ...]]:
    """The places of trained maps that input rows enter, the readout's among them."""
    model = deployment.model
    readout = [("readout", *model.readout.first_map, "kernel")] if model.readout.sees_input else []
    return [place for place in (*input_places(model), *readout) if model.trains(*place)]
