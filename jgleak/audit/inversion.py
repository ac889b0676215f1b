"""One observation file attacked as a user asks, and the answer as a record."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.census.batches.unannounced import counted
from jgleak.attacks.facts.diagnosis import diagnoses
from jgleak.attacks.facts.fact import Facts
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.facts.sizes import refuted_size
from jgleak.attacks.registry import get_attack
from jgleak.audit.compilations import compilations
from jgleak.audit.describe import describe
from jgleak.audit.experiment import REAL_TOLERANCE
from jgleak.audit.outcome import FOUND, Outcome, outcome
from jgleak.audit.record import plain
from jgleak.audit.recorded.truth import truths
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, Observation, load
from jgleak.graph import Graph
from jgleak.metrics import match_graphs, same_label, score, truth_in_set
from jgleak.precision import computed_noise, rounding_of
from jgleak.smiles import Smiles, smiles
from jgleak.version import __version__

UNKNOWN = "unknown"
"""Stands for an unknown number of graphs behind an update."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """How every file is attacked.

    Attributes:
      attack: the attack with its options.
      seed: the attack's seed.
      time_limit: seconds that it may take on one file.
      told: fields of ``Knowledge`` besides the feature space, the noise and the public graphs.
      public: graphs of no client, in a file's feature space.
      space: the feature space, where the files do not state it.
      said: fields of the observation that replace the files'; ``batch_size`` may be ``UNKNOWN``.
      truth: a folder or file with the private graphs, where there is one.
    """

    attack: Attack
    seed: int
    time_limit: float
    told: Mapping[str, Any]
    public: Callable[[FeatureSpace], Sequence[Graph]]
    space: FeatureSpace | None
    said: Mapping[str, Any]
    truth: Path | None = None


class Beside(NamedTuple):
    """The answer compared with the truth: all graphs are exact; all are among the listed ones; their mean GSM-2; all
    labels that can be compared are right (None: none can)."""

    exact: bool
    truth_in_set: bool
    gsm2: float
    label: bool | None


class Inverted(NamedTuple):
    """One file and the answer for it.

    Attributes:
      file: its path.
      observation: what was attacked, with the user's corrections.
      space: its feature space.
      found: the attack's answer.
      worth: how good the answer is.
      why: where nothing was found, reasons that the update shows.
      facts: what the update shows without a search.
      molecules: the SMILES of every graph shown, where it is a molecule.
      seconds: time of the attack, and of compilation within it.
      beside: comparison with the truth; None where it is unknown.
      said: fields of the observation that replace the file's.
    """

    file: Path
    observation: Observation
    space: FeatureSpace
    found: Reconstruction
    worth: Outcome
    why: list[str]
    facts: Facts
    molecules: list[Smiles | None]
    seconds: tuple[float, float]
    beside: Beside | None
    said: dict[str, Any]

    @property
    def shown(self) -> Sequence[Graph]:
        """The best graph, or one for each of a batch."""
        return self.found.graphs if self.observation.batch_size > 1 else self.found.graphs[:1]


def invert(file: Path, asked: Asked, tell: Callable[[Facts], None]) -> Inverted:
    """Attack one file.

    Args:
      file: the observation file.
      asked: the attack, and what it knows.
      tell: is called with the update's facts before the search begins.

    Raises:
      ValueError: the file, its truth or the options do not fit each other, or the attack refuses them.
    """
    observation, space = load(file, asked.space)
    unknown = asked.said.get("batch_size") == UNKNOWN
    said = {name: value for name, value in asked.said.items() if value is not None and value != UNKNOWN}
    if "rounded_to" in said:
        said["rounding"] = rounding_of(said.pop("rounded_to"))
        if observation.noise == computed_noise(observation.update):  # nobody stated it
            said.setdefault("noise", None)
    observation = dataclasses.replace(observation, **said)
    said.pop("noise", None)
    noise, attack = observation.noise, asked.attack
    size = None if unknown else observation.batch_size
    private = [] if asked.truth is None else truths(asked.truth, file, space, size)
    knowledge = Knowledge(space=space, auxiliary=tuple(asked.public(space)), noise=noise, **asked.told)
    shown = Facts({}, {})
    if not unknown:
        shown = facts(observation, space, noise=noise)
        tell(shown)
        refuted = refuted_size(shown, knowledge, observation.batch_size)
        if refuted is not None:  # no attack can meet what is certain and what was told
            without = "" if "n" in asked.attack.needs else ", or leave it out"
            raise ValueError(f"{refuted}; correct it, or the number of graphs (--batch-size){without}")
    begun, compiled = time.monotonic(), compilations()
    given: dict[str, Any] = {"key": jax.random.key(asked.seed), "budget": Budget(time_limit=asked.time_limit)}
    if unknown:
        observation, found = counted(attack, observation, knowledge, **given)
        said["batch_size"] = observation.batch_size
    else:
        found = attack(observation, knowledge, **given)
    seconds = time.monotonic() - begun, compilations().since(compiled).seconds
    census = get_attack("census")
    exact = [census.name] if attack.name != census.name and census.refusal(observation, knowledge) is None else []
    worth = outcome(observation, found, knowledge, exact=exact, counted=unknown)
    if unknown and worth.kind == FOUND:  # facts depend on the number of graphs
        shown = facts(observation, space, noise=noise)
        tell(shown)
    why = list[str]()
    if not found.graphs:
        why = diagnoses(observation, space, noise=noise)
    best = found.graphs if observation.batch_size > 1 else found.graphs[:1]
    drawn = [_molecule(graph, space) for graph in best]
    beside = beside_truth(private, found, space, observation.batch_size) if private else None
    return Inverted(file, observation, space, found, worth, why, shown, drawn, seconds, beside, said)


def beside_truth(private: Sequence[Graph], found: Reconstruction, space: FeatureSpace, size: int) -> Beside:
    """Compare the answer for ``size`` graphs with the truth; an answer with a wrong number of graphs is never exact."""
    tolerance = 0.0 if space.discrete else REAL_TOLERANCE
    alike = len(private) == size
    if alike and size == 1:
        one = score(private[0], found.best, space, tolerance=tolerance)
        listed = truth_in_set(private[0], found.graphs, tolerance=tolerance)
        label = None if found.best is None else same_label(private[0], found.best, tolerance=REAL_TOLERANCE)
        return Beside(one.exact, listed, one.gsm2, label)
    order = match_graphs(private, found.graphs, space).tolist() if found.graphs else [len(found.graphs)] * len(private)
    scores, listed, labels = [], [], []
    for truth, own in zip(private, order, strict=True):
        best = found.graphs[own] if own < len(found.graphs) else None
        lists = found.members[own].graphs if best is not None and found.members else () if best is None else (best,)
        scores.append(score(truth, best, space, tolerance=tolerance))
        listed.append(truth_in_set(truth, lists, tolerance=tolerance))
        labels.append(None if best is None else same_label(truth, best, tolerance=REAL_TOLERANCE))
    exact, mean = all(one.exact for one in scores), sum(one.gsm2 for one in scores) / len(scores)
    compared = [label for label in labels if label is not None]
    return Beside(alike and exact, alike and all(listed), mean, all(compared) if compared else None)


def _molecule(graph: Graph, space: FeatureSpace) -> Smiles | None:
    try:
        return smiles(graph, space)
    except (ValueError, TypeError):  # a schema whose values are words: a graph, but no molecule
        return None


def inverted_record(one: Inverted, attack: str) -> dict[str, Any]:
    """What ``jgleak invert --json`` prints for one file; fields that need the truth are None where it is unknown."""
    found, beside = one.found, one.beside
    return plain(
        {
            "file": str(one.file),
            "attack": attack,
            "outcome": one.worth.kind,
            "batch_size": one.observation.batch_size,
            "reason": found.info.get("reason"),
            "hints": one.worth.hints,
            "facts": one.facts.to_json(),
            "diagnoses": one.why,
            "graphs": [describe(g, one.space) for g in found.graphs],
            "members": [
                {
                    "graphs": [describe(graph, one.space) for graph in member.graphs],
                    "certificate": None if member.certificate is None else dataclasses.asdict(member.certificate),
                }
                for member in found.members
            ],
            "smiles": [None if m is None else dataclasses.asdict(m) | {"note": m.note} for m in one.molecules],
            "gradient_distance": found.gradient_distance,
            "stop": found.stop,
            "certificate": None if found.certificate is None else dataclasses.asdict(found.certificate),
            **dict.fromkeys(Beside._fields if beside is None else ()),
            **({} if beside is None else beside._asdict()),
            "seconds": one.seconds[0],
            "seconds_compiling": one.seconds[1],
            "info": found.info,
            "version": __version__,
        }
    )


def summary_of(records: Sequence[Mapping[str, Any]], files: int, failed: int, compared: bool) -> dict[str, int]:
    """Counts over the records of several files: files with a graph of the observed gradient, with one certified unique,
    with a certificate, and, where the truth is known, exact ones, listed ones, and those that contradict a certificate.

    Args:
      records: as ``inverted_record`` gives them.
      files: how many there are.
      failed: those that could not be read, were refused, on which the attack broke down, or whose answer could not be
        written.
      compared: truths were given; missing ones are counted.
    """
    kinds = [(one["certificate"] or {}).get("status") for one in records]
    told = [one for one in records if one["exact"] is not None]
    complete = ("unique", "k_graphs")
    return {
        "files": files,
        "failed": failed,
        "found": sum(one["outcome"] == FOUND for one in records),
        "unique": kinds.count("unique"),
        "listed": sum(kind is not None for kind in kinds),
        "truths": len(told),
        "without_truth": len(records) - len(told) if compared else 0,
        "exact": sum(one["exact"] for one in told),
        "truth_in_set": sum(one["truth_in_set"] for one in told),
        "wrong": sum((one["certificate"] or {}).get("status") in complete and not one["truth_in_set"] for one in told),
    }
