"""How good an attack's answer is: found, an approximation, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jgleak.attacks.attack import LATE, Reconstruction
from jgleak.attacks.census.distinct import DIFFER, differing
from jgleak.attacks.census.small_numbers import TRIED
from jgleak.attacks.distance import USUAL, Fit
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge, Observation

FOUND, PART, APPROXIMATION, NOTHING = "found", "part", "approximation", "nothing"


DEGREE = (
    "the schema states that {0!r} is the number of neighbours in the graph, so attacks leave nodes with another number "
    "out; a degree that counts others too (of a molecule one that counts hydrogens, as RDKit's, PyTorch "
    "Geometric's from_smiles and OGB's) is a different number: leave 'degree' out of the schema, or use --features pyg "
    "or ogb for such molecules"
)


MORE = "{} graphs with a part of the update each, and batch_size={}: some are not the client's, or it has more graphs"

NUMBER = (
    "is batch_size the number of graphs, and is the update the gradient of their mean loss? Of a sum each graph is "
    "found as often as there are graphs: reduction='sum' states it"
)

MORE_TIME = "the time ran out, compilation included: raise --time-limit"

UNASKED = ("no information",)
"""Where an attack stopped before it asked how many neighbours a node has."""


class Outcome(NamedTuple):
    """The kind of an answer, with text and hints.

    Attributes:
      kind: ``found``: the first graph, or all graphs of a batch together, has the observed gradient up to rounding and
        known noise. ``part``: some graphs of a batch, each with its own part of the update. ``approximation``: there is
        a graph, and its gradient is another one or unknown. ``nothing``: there is no graph.
      text: for a part or an approximation its description; else empty.
      hints: what to try next, where the graph was not found; what leaves fewer graphs, where several were.
    """

    kind: str
    text: str
    hints: tuple[str, ...]


def outcome(
    observation: Observation,
    found: Reconstruction,
    knowledge: Knowledge,
    *,
    exact: Sequence[str] = (),
    counted: bool = False,
) -> Outcome:
    """The kind of an answer by its own gradient distance.

    Args:
      observation: what was attacked.
      found: the answer.
      knowledge: what the attacker was told.
      exact: other attacks that find whole graphs and can run on this observation, for a hint.
      counted: the attack found the number of graphs, which nobody stated.
    """
    if not found.graphs:
        hints = *_hints(found.stop, found.info.get("reason"), knowledge), *_training(observation, found.stop)
        hints = hints if counted else (*hints, *_number(observation, found.stop))
        stated = None if found.stop in UNASKED else knowledge.space.degree
        return Outcome(NOTHING, "", hints if stated is None else (*hints, DEGREE.format(stated)))
    fit, distance = Fit.of(observation, knowledge.noise), found.gradient_distance
    if distance is not None and distance <= fit.most and fit.informative:
        hints = _shorter(found, knowledge.space) if observation.batch_size == 1 else _unnamed(found, knowledge)
        return Outcome(FOUND, "", (*hints, *_faint(distance, fit)))
    if len(found.members) > observation.batch_size:
        return Outcome(APPROXIMATION, MORE.format(len(found.members), observation.batch_size), (NUMBER,))
    if found.members and len(found.members) < observation.batch_size:
        text = f"{len(found.members)} of the {observation.batch_size} graphs of the batch; the others were not found"
        late = found.stop == "time" and found.info.get("reason") not in LATE  # that reason says it already
        hints = (MORE_TIME,) if late else ()
        return Outcome(PART, text, (*hints, *(tuple(_unnamed(found, knowledge)) or _size(knowledge))))
    away = "an unknown distance" if distance is None else f"{distance:.1e}"
    text = (
        f"an approximation, not a reconstruction: its gradient is {away} from the observed one, relative to that, and "
        f"the graph's own would be within {fit.most:.0e}; its nodes and edges may all be wrong"
    )
    other = f"another attack ({', '.join(exact)}), or more" if exact else "more"
    return Outcome(APPROXIMATION, text, (f"{other} steps and restarts{',' if exact else ''} may find the graph",))


def _shorter(found: Reconstruction, space: FeatureSpace) -> Iterator[str]:
    """What would leave fewer graphs of a list that has graphs of several sizes, or with nodes of the same features, and
    what may close a list that is open."""
    certificate, sizes = found.certificate, sorted(graph.n for graph in found.graphs)
    if certificate is None:
        return
    if sizes[0] < sizes[-1] and not certificate.n_known:
        yield (
            f"the {len(sizes)} graphs have {sizes[0]} to {sizes[-1]} nodes ({sizes.count(sizes[0])} of them "
            f"{sizes[0]}): where their number or a bound on it is known, --n or --max-n leaves fewer of these"
        )
    if TRIED.format(sizes[0]) in certificate.conditions:
        yield "the returned statistics do not determine the number of nodes: if it is known, --n may close the list"
        return
    differ = sum(map(differing, found.graphs))
    stated = space.degree is not None and not space.edge_classes
    tried = DIFFER in certificate.conditions or found.info.get("notes")  # notes say why it was not used
    if not stated or not differ or tried:
        return
    if certificate.status == "at_least_k":
        yield (
            f"the search did not end, so others were not excluded: if it is known that no two nodes have the same "
            f"features, as in {differ} of the {len(sizes)} listed, --distinct-nodes searches fewer and may end"
        )
    elif differ < len(sizes):
        yield f"in {differ} of the {len(sizes)} no two nodes have the same features: if that is known, --distinct-nodes"


def _hints(stop: str, reason: str | None, knowledge: Knowledge) -> tuple[str, ...]:
    """What to try next, by the reason why an attack stopped without a graph."""
    if stop == "time":
        also = ", but first mend the reason that the attack gives, which more time may not change"
        also = "" if reason is None or reason in LATE else also
        return MORE_TIME + also, *_size(knowledge)
    told = (
        "noise that clients add needs --noise, "
        if knowledge.noise is None
        else "--noise must be what the clients added, "
    )
    told += "other defences need other attacks"
    if stop != "no candidates":
        return told, *_size(knowledge)
    return (
        "no node passed the span checks, or too few: do --features match the model's input (raw or normalised "
        "columns, and the latter's mean and deviation), and is the update as the client computed it?",
        f"{told}; narrow or untrained models can hide nodes",
    )


def _size(knowledge: Knowledge) -> Iterator[str]:
    """What to check where the number of nodes was told: the first thing, where rows were seen and no graph fits."""
    given = ",".join(map(str, knowledge.sizes)) or knowledge.n
    if given is not None:
        whose = (
            "are these the graphs' numbers of nodes"
            if knowledge.sizes
            else "has every graph of the client so many nodes"
        )
        yield f"--n {given}: {whose}? A wrong one leaves the client's graph out"
    elif knowledge.max_n is not None:
        yield f"--max-n {knowledge.max_n}: has no graph of the client more nodes? A wrong bound leaves it out"


def _unnamed(found: Reconstruction, knowledge: Knowledge) -> Iterator[str]:
    """Sizes of found graphs that were not among those told: attacks may take a list of sizes as bounds."""
    if not knowledge.sizes:
        return
    left = Counter(graph.n for graph in found.graphs) - Counter(knowledge.sizes)
    if left:
        more = ", ".join(map(str, sorted(left.elements())))
        yield f"--n {','.join(map(str, knowledge.sizes))} does not name the sizes of all graphs found: it lacks {more}"


def _training(observation: Observation, stop: str) -> Iterator[str]:
    """What to check where the file states local training: under other numbers nothing has the update, and under true
    ones an attack that looked for graphs may have lost the path of the weights."""
    local = observation.local
    if local is None:
        return
    said = {"rate": f"{local.rate:g}", "steps": local.steps, "loader": local.loader}
    said |= {name: f"{number:g}" for name in ("momentum", "weight_decay") if (number := getattr(local, name))}
    given = ", ".join(f"{name}={value}" for name, value in said.items())
    yield (
        f"the file states how the client trained: LocalTraining({given}) of batch_size={observation.batch_size}; where "
        "a number is wrong (steps are those of all passes together, loader the graphs of a step, None: all), no graph "
        "has this update"
    )
    if local.steps > 1 and stop not in ("time", "no information"):
        yield (
            f"where these numbers are right, the weights may have moved too far in {local.steps} steps of "
            f"{local.rate:g} to be followed: of a round with a smaller rate or fewer steps more comes back"
        )


def _number(observation: Observation, stop: str) -> Iterator[str]:
    """That a wrong number of graphs leaves none, where a search ended without one."""
    whole = not observation.model.node_level and observation.protocol != "target_node"
    if whole and stop not in ("time", *UNASKED):
        yield (
            f"batch_size={observation.batch_size}: under a wrong number of graphs nothing has this update; where it is "
            "not certain, the census finds it (--batch-size unknown)"
        )


def _faint(distance: float, fit: Fit) -> Iterator[str]:
    """That a gradient is less alike than those of one graph are, where neither noise nor the client's rounding tells
    why."""
    if fit.deviation is None and not fit.rounded and distance > USUAL:
        yield (
            f"the graph's gradient is {distance:.0e} from the observed one; rounding seldom leaves more than "
            f"{USUAL:.0e}, but where a model is certain of its labels: is every constant of the model the client's "
            "(epsilon of a norm, a slope, a rate)? A graph of a model that is nearly the client's need not be "
            "the client's"
        )


def ended_by_time(stop: str, reason: str | None) -> bool:
    """Whether the time limit ended a search or a part of it, by the ``stop`` and ``info["reason"]`` of an answer."""
    return stop == "time" or reason in LATE
