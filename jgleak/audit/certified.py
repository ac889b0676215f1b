"""Reconstructions on disk, with their certificate, and the check of both from scratch."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.census.batches.joint import together
from jgleak.attacks.certificate import Certificate, Status
from jgleak.attacks.distance import Fit, Label, gradient_distances, labelled_distance
from jgleak.attacks.noise import described
from jgleak.audit.record import plain
from jgleak.features import FeatureSpace
from jgleak.federated import Observation, load
from jgleak.graph import Graph
from jgleak.precision import DIGITS, rounds_to
from jgleak.reading import read_json, shortened, typed_fields

FORMAT = "jgleak reconstruction 1"

SAID = {"loss": "str", "batch_size": "int", "scaled": "bool", "pruned": "bool", "rounding": "float"}
"""Fields of the observation that a user may correct, and their types."""

NOTHING_ELSE: Mapping[str, Any] = {}

CERTIFICATE = {f.name: "str" if f.name == "status" else str(f.type) for f in dataclasses.fields(Certificate)}
"""The types of a certificate's fields in a file."""


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of a check: whether everything holds, and the checks in words."""

    holds: bool
    text: str


def document(
    reconstruction: Reconstruction,
    observation: str,
    space: FeatureSpace | None = None,
    said: Mapping[str, Any] = NOTHING_ELSE,
    own: int | None = None,
) -> str:
    """The listed graphs, best first, as feature codes and edges, with their certificate, as JSON.

    Args:
      reconstruction: what an attack found.
      observation: the path from the document's folder to the observation's file.
      space: the feature space, where that file has none or a different one.
      said: fields of the observation (``SAID``) that replace the file's.
      own: which graph of a batch the document describes, where it describes one.
    """
    certificate = reconstruction.certificate
    fields = {
        "format": FORMAT,
        "observation": observation,
        "gradient_distance": reconstruction.gradient_distance,
        "stop": reconstruction.stop,
        "reason": reconstruction.info.get("reason"),
        "certificate": None if certificate is None else dataclasses.asdict(certificate),
        "graphs": [_plain_graph(g) for g in reconstruction.graphs],
        "own": own,
        "members": [_plain_member(member) for member in reconstruction.members],
        "space": None if space is None else space.to_json(),
        "said": dict(said),
    }
    return json.dumps(plain(fields)) + "\n"


def _plain_member(member: Reconstruction) -> dict[str, Any]:
    """What is listed for one graph of a batch."""
    certificate = None if member.certificate is None else dataclasses.asdict(member.certificate)
    return {"graphs": [_plain_graph(graph) for graph in member.graphs], "certificate": certificate}


def _plain_graph(graph: Graph) -> dict[str, Any]:
    classes = {} if graph.edge_class is None else {"edge_class": graph.edge_class}
    return {"x": graph.x, "edges": graph.edges, "y": graph.y, **classes}


def write(
    path: Path,
    reconstruction: Reconstruction,
    observation: Path,
    space: FeatureSpace | None = None,
    said: Mapping[str, Any] = NOTHING_ELSE,
) -> None:
    """Write the document with the path of its observation."""
    text = document(reconstruction, os.path.relpath(observation, path.parent), space, said)
    path.write_text(text, encoding="utf-8")


class ListedMember(NamedTuple):
    """One graph of a batch: its listed graphs, best first, and their certificate."""

    graphs: list[Graph]
    certificate: Certificate | None


class Listed(NamedTuple):
    """A document read back: graphs, certificate, the observation's file, a feature space and fields that replace the
    file's, and for a batch each graph's own list."""

    graphs: list[Graph]
    certificate: Certificate | None
    observation: Path
    space: FeatureSpace | None
    said: Mapping[str, Any]
    members: list[ListedMember]
    own: int | None

    @property
    def shown(self) -> list[Graph]:
        """The list that the document describes: for a batch the list of one graph, where ``own`` names one."""
        if self.own is None:
            return self.graphs
        return self.members[self.own].graphs if self.members else [self.graphs[self.own]]


def read(path: Path) -> Listed:
    """The document in a file.

    Raises:
      ValueError: the file is broken, or not a reconstruction.
    """
    try:
        found: Any = read_json(path)
    except ValueError as error:
        raise ValueError(f"file: {error}; give a file of a folder 'reconstructions'") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"file: {path} is not a {FORMAT!r} file; give one that `jgleak attack --out` wrote")
    try:
        graphs, certificate = _listed(found)
        members, space = [ListedMember(*_listed(member)) for member in found.get("members", [])], found.get("space")
        given = typed_fields(found, {"observation": "str", "loss": "str | None", "own": "int | None"}, others=True)
        older = {} if given.get("loss") is None else {"loss": given["loss"]}  # a field of version 0.1
        said = typed_fields(found.get("said", older), SAID, "said")
        own = given.get("own")
        if own is not None and not 0 <= own < len(members or graphs):
            raise ValueError(f"own: {len(members or graphs)} graphs are listed, got {own}")
        space = None if space is None else FeatureSpace.from_json(space)
        return Listed(graphs, certificate, path.parent / given["observation"], space, said, members, own)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"file: {path} lacks or breaks a field ({error}); write it again") from error


def _listed(data: Mapping[str, Any]) -> tuple[list[Graph], Certificate | None]:
    certificate = data["certificate"]
    if certificate is not None:
        certificate = Certificate(**typed_fields(certificate, CERTIFICATE, "certificate"))
    return [graph_of(graph) for graph in data["graphs"]], certificate


def graph_of(data: Mapping[str, Any]) -> Graph:
    """A graph of a document, private ones of an audit included."""
    edges, classes = whole_numbers(data["edges"]).reshape(-1, 2), data.get("edge_class")
    y = _label(data["y"])
    return Graph(np.array(data["x"]), edges, y, edge_class=None if classes is None else whole_numbers(classes))


def whole_numbers(values: Any) -> Int[np.ndarray, "..."]:
    """An array of whole numbers; raises ``ValueError`` for anything else, fractions included."""
    array = np.array(values)
    if array.size and array.dtype.kind != "i":
        raise ValueError(f"expected whole numbers of at most 64 bits, got {shortened(values)}")
    return array.astype(np.int64)


def verify(path: Path) -> Report:
    """Recompute every graph's gradient, at its best label and at the label it states; compare all graphs with each
    other, and the certificate with both. What a certificate claims about graphs that are *not* listed follows from the
    search, which is not repeated.

    Raises:
      ValueError: a broken file, or its observation is not where it says.
    """
    graphs, certificate, place, space, said, members, _ = read(path)
    if not place.is_file():
        raise ValueError(
            f"file: {path} names {os.path.relpath(place, path.parent)} as its observation, from its own folder, and "
            "there is no such file; move the two together, or correct 'observation' in it"
        )
    observation, space = load(place, space)
    try:
        if "rounding" in said:
            said = {"noise": None, **said}
            if not any(rounds_to(name, said["rounding"]) for name in DIGITS):
                raise ValueError(f"said: rounding: {said['rounding']} is that of no type ({', '.join(DIGITS)})")
        observation = dataclasses.replace(observation, **said)
        for graph in [*graphs, *(graph for member in members for graph in member.graphs)]:
            space.check(graph.x)
    except ValueError as error:
        raise ValueError(f"file: {path}: {error}") from error
    if members:
        return _verified_batch(observation, space, members, certificate)
    if not graphs and certificate is None:
        return Report(False, "no graph is listed and nothing is claimed: nothing to verify")
    distances, implied = zip(*gradient_distances(observation, space, graphs), strict=True) if graphs else ((), ())
    forms = {graph.canonical_form() for graph in graphs}
    furthest = max(distances, default=0.0)
    fit = Fit.of(observation, observation.noise if certificate is None else certificate.noise)
    most = fit.most
    details = f", different: {len(forms)}, largest gradient distance: {furthest:.1e}" if graphs else ""
    lines = [f"graphs listed: {len(graphs)}{details}"]
    wrong = {
        "no graph is listed": not graphs,
        "it assumes noise that alone explains the update": not fit.informative,
        f"a listed graph's gradient is more than {most:.0e} away": not furthest <= most,
        "two listed graphs are isomorphic": len(forms) < len(graphs),
    }
    wrong |= dict.fromkeys(_mislabelled(observation, space, graphs, implied, most), True)
    wrong |= {} if certificate is None else _overclaims(certificate, graphs)
    shown = "every listed graph has the observed gradient, and none is listed twice"
    lines += _claims(certificate, observation.rounding)
    return _report(shown, lines, [fault for fault, found in wrong.items() if found], certificate)


def _claims(certificate: Certificate | None, rounding: float | None) -> list[str]:
    """A certificate in words."""
    if certificate is None:
        return ["no certificate: nothing is claimed about other graphs"]
    noisy = "" if certificate.noise is None else f", {described(certificate.noise, rounding)}"
    return [
        f"certificate {certificate.status} of {certificate.size}, up to {certificate.n_max} nodes{noisy}",
        *(f"  if {condition}" for condition in certificate.conditions),
    ]


def _report(shown: str, lines: Sequence[str], faults: Sequence[str], certificate: Certificate | None) -> Report:
    """The lines and the faults, or, without a fault, the lines and what is shown and what is not."""
    if faults:
        return Report(False, "\n".join([*lines, *(f"fault: {fault}" for fault in faults), "does not hold"]))
    others = "others are not excluded, by the search or by this check"
    if certificate is not None and certificate.status != "at_least_k":
        others = "that there are no others follows from the search, which is not repeated here"
    return Report(True, "\n".join([*lines, f"holds: {shown}; {others}"]))


def _verified_batch(
    observation: Observation, space: FeatureSpace, members: Sequence[ListedMember], certificate: Certificate | None
) -> Report:
    """The check of a batch: the whole gradient from the first graph of every list, then with every other graph of a
    list in place of its first. Where graphs of the batch are missing, the gradient cannot be recomputed; each graph
    must then remove one dimension from the gradient of the map that pooled rows enter."""
    size, lines, faults = observation.batch_size, list[str](), list[str]()
    checked = together(observation, space, [member.graphs for member in members])
    lines.append(f"graphs found: {len(members)} of {size}; {checked.text}")
    for place, (member, furthest) in enumerate(zip(members, checked.furthest, strict=True)):
        forms = {graph.canonical_form() for graph in member.graphs}
        said = f"graph {place}"
        lines.append(f"{said}: {len(member.graphs)} listed, different: {len(forms)}, largest distance: {furthest:.1e}")
        wrong = {
            "nothing is listed": not member.graphs,
            "two listed graphs are isomorphic": len(forms) < len(member.graphs),
        }
        wrong |= {f"the gradient of a listed graph is more than {checked.most:.0e} away": not furthest <= checked.most}
        wrong |= {} if member.certificate is None else _overclaims(member.certificate, member.graphs)
        faults += [f"{said}: {fault}" for fault, found in wrong.items() if found]
        lines += [f"  {line}" for line in _claims(member.certificate, observation.rounding)[:1]]
    if certificate is not None and len(members) < size:
        faults.append("it certifies a batch of which graphs are missing")
    parts = "together the graphs have the observed gradient" if len(members) == size else "each graph explains a part"
    lines += _claims(certificate, observation.rounding)
    return _report(f"{parts}, and no list has one twice", lines, faults, certificate)


def _mislabelled(
    observation: Observation, space: FeatureSpace, graphs: Sequence[Graph], implied: Sequence[Label], most: float
) -> Iterator[str]:
    """What is wrong with the labels of listed graphs. Where the update does not show a label, none is checked."""
    for place, (graph, label) in enumerate(zip(graphs, implied, strict=True)):
        if label is None:
            continue
        try:
            distance = labelled_distance(observation, space, graph)
        except ValueError as error:
            yield f"graph {place}: {error}"
            continue
        if not distance <= most:
            yield f"graph {place}: y: with its label {graph.y!r} its gradient is {distance:.0e} away, over {most:.0e}"


def _overclaims(certificate: Certificate, graphs: list[Graph]) -> dict[str, bool]:
    """Claims of a certificate that its own list contradicts, or that no search here can have shown."""
    status, size, most, known = certificate.status, certificate.size, certificate.n_max, certificate.n_known
    return {
        f"status {status!r} is none of {', '.join(get_args(Status))}": status not in get_args(Status),
        f"it counts {size} graphs, {len(graphs)} are listed": size != len(graphs),
        f"it says 'unique' of {size} graphs": status == "unique" and size != 1,
        f"a listed graph has more than {most} nodes": any(g.n > most for g in graphs),
        f"a listed graph has fewer than the known {most} nodes": known and any(g.n < most for g in graphs),
        "it names no condition, and every search has some": not certificate.conditions,
    }


def _label(y: Any) -> Any:
    """A label from JSON, where a missing one of several tasks is null."""
    rows = isinstance(y, list) and bool(y) and isinstance(y[0], list)
    return np.array(y, np.float64) if rows else np.array(y) if isinstance(y, list) else y
