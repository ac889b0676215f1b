"""What an attack's answer is worth, in a word: found, an approximation, nothing."""

from __future__ import annotations

from typing import NamedTuple

from jgleak.attacks.attack import LATE, Reconstruction
from jgleak.attacks.distance import Fit
from jgleak.features import FeatureSpace
from jgleak.federated import Observation

FOUND, PART, APPROXIMATION, NOTHING = "found", "part", "approximation", "nothing"


DEGREE = (
    "the schema says that {0!r} is the number of neighbours in the graph, and nodes of other numbers are excluded: a "
    "total degree that counts hydrogens (RDKit's, PyTorch Geometric's from_smiles, OGB) is none; leave 'degree' out of "
    "the schema, or take --features pyg or ogb"
)


class Outcome(NamedTuple):
    """An answer and what to say of it.

    Attributes:
      kind: ``found``: the first graph has the observed gradient, up to rounding and known noise; of a batch all graphs
        together. ``part``: of a batch some graphs, each with what it alone must explain of the update.
        ``approximation``: there is a graph, and its gradient is another one or unknown. ``nothing``: there is no
        graph.
      text: of a part or an approximation what it is, for people; else empty.
      hints: what to try, where no graph was found.
    """

    kind: str
    text: str
    hints: tuple[str, ...]


def outcome(
    observation: Observation, found: Reconstruction, noise: float | None, space: FeatureSpace | None = None
) -> Outcome:
    """What an answer is worth by its own gradient distance.

    Args:
      observation: what was attacked.
      found: the answer.
      noise: deviation of the noise on every entry, where some is known.
      space: the feature space, for what may be wrong with it.
    """
    if not found.graphs:
        hints = _hints(found.stop, noise)
        stated = None if space is None or found.stop == "time" else space.degree
        return Outcome(NOTHING, "", hints if stated is None else (*hints, DEGREE.format(stated)))
    fit, distance = Fit.of(observation, noise), found.gradient_distance
    if distance is not None and distance <= fit.most and fit.informative:
        return Outcome(FOUND, "", ())
    if found.members and len(found.members) < observation.batch_size:
        text = f"{len(found.members)} of the {observation.batch_size} graphs of the batch; the others were not found"
        return Outcome(PART, text, ())
    away = "an unknown distance" if distance is None else f"{distance:.1e}"
    text = (
        f"an approximation, not a reconstruction: its gradient is {away} from the observed one, relative to that, and "
        f"the graph's own would be within {fit.most:.0e}; its nodes and edges may all be wrong"
    )
    return Outcome(APPROXIMATION, text, ("another attack (census), or more steps and restarts, may find the graph",))


def _hints(stop: str, noise: float | None) -> tuple[str, ...]:
    """What to try, by why an attack stopped without a graph."""
    if stop == "time":
        return ("the time ran out, compilation included: raise --time-limit",)
    told = "noise that clients add needs --noise, " if noise is None else "--noise must be what the clients added, "
    told += "other defences need other attacks"
    if stop != "no candidates":
        return (told,)
    return (
        "no node passed the span checks: is --features what the model was shown (raw or normalised), and is the update "
        "as the client computed it?",
        f"{told}; narrow or untrained models can hide nodes",
    )


def ended_by_time(stop: str, reason: str | None) -> bool:
    """Whether the time limit ended a search or a part of it, by the ``stop`` and ``info["reason"]`` of an answer."""
    return stop == "time" or reason in LATE
