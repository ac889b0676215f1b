"""From the record of a forward pass to its list of steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jgleak.interop.convert import ACTS, AROUND, check_options, is_norm, jump_word, step_of
from jgleak.interop.inside import inside_of, split
from jgleak.interop.layers import (
    ADD,
    GIN,
    GINE,
    INPUT,
    POOLS,
    Conv,
    Embeddings,
    Linear,
    NamedLayer,
    Norm,
    Residual,
    Step,
    called,
)
from jgleak.interop.plan import MATCHING, REFUSED, SUBNETWORK
from jgleak.interop.probe import Probe, edge_classes, probe_of
from jgleak.interop.record import DROPOUTS, Made, record

OTHER_ACTIVATIONS = (
    "leaky_relu",
    "silu",
    "selu",
    "celu",
    "prelu",
    "relu6",
    "softplus",
    "mish",
    "hardtanh",
    "hardswish",
)
KNOWN_ACTIVATIONS = f"the activations here are {', '.join(ACTS.values())}"
REASONS = (
    dict.fromkeys(
        DROPOUTS,
        f"{SUBNETWORK}; it is active in evaluation mode too unless it is given training=self.training: give it that, "
        f"and take gradients after model.eval(). {MATCHING}",
    )
    | dict.fromkeys(OTHER_ACTIVATIONS, KNOWN_ACTIVATIONS)
    | {
        "softmax": REFUSED["softmax"],
        "gelu": "of GELU approximated by tanh describe the layers, with 'gelu_tanh' among them",
        "stack": "join the states of all layers by torch.cat, a sum, or JumpingKnowledge",
        "detach": "no gradient passes it, so that what is before it is not trained",
        "linear": "the arrays of a linear map are found by its module; write it as torch.nn.Linear",
        "matmul": "the arrays of a linear map are found by its module; write it as torch.nn.Linear",
        "layer_norm": "the arrays of a normalisation are found by its module; write it as torch.nn.LayerNorm",
        "batch_norm": "the arrays of a normalisation are found by its module; write it as torch.nn.BatchNorm1d",
    }
)
"""Functions of forward passes that the bridge refuses, and why."""


def traced(model: Any, names: Mapping[int, str], probe: Probe) -> list[Step]:
    """The forward pass of a live model as a list of steps.

    Args:
      model: the module, or a part of one.
      names: the names of its modules, by their ``id``.
      probe: a graph to run it on.

    Raises:
      ValueError: naming what was not understood, and where it stands.
    """
    return _spaced(_path(record(model, names, probe)))


def steps_in(name: str, module: Any) -> list[Step]:
    """A known module as steps: one, and the end of the map inside a GIN.

    Raises:
      ValueError: naming the module, what it is, and what works.
    """
    kind = type(module).__name__
    if kind not in AROUND:
        return [step_of(name, module)]
    check_options(name, kind, module)
    path = {id(part): f"{name}.nn.{inner}".removesuffix(".") for inner, part in module.nn.named_modules()}
    inside, behind = split(traced(module.nn, path, probe_of(module.nn)))
    if kind == "GINEConv" and edge_classes(module) is None:
        raise ValueError(
            f"model: {name!r} is a GINEConv without edge_dim, which adds edge features as they are; build it with "
            "edge_dim=4, the number of edge classes, and give it their one-hot rows"
        )
    made = (GINE if kind == "GINEConv" else GIN)(name, inside=[_within(name, step) for step in inside])
    inside_of(made)
    return [_usual(made), *behind]


def _within(name: str, step: Step) -> Step:
    """A step with its name relative to a layer."""
    if isinstance(step, str):
        return step
    return dataclasses.replace(step, name=step.name.removeprefix(f"{name}."))


def _usual(made: GIN) -> GIN:
    """The layer without its inner steps, where they are the usual ones under the usual names."""
    if len(made.inside) == 3 and isinstance(act := made.inside[1], str):
        for first, last in zip(made.patterns["kernel"], made.patterns["out_kernel"], strict=True):
            if made.inside == (Linear(first.removesuffix(".weight")), act, Linear(last.removesuffix(".weight"))):
                return dataclasses.replace(made, act=act, inside=())
    return made


def _path(made: Made) -> list[Step]:
    """The steps from the rows to a tensor."""
    if made.what == "rows":
        return []
    if made.what == "column" or (made.what == "module" and type(made.module).__name__ == "Embedding"):
        return [_embeddings((made,))]
    if made.what == "module":
        return [*_path(_only(made)), *steps_in(made.name, made.module)]
    if made.what == "act":
        return [*_path(_only(made)), made.name]
    if made.what == "pool":
        if made.name not in POOLS:
            raise ValueError(f"model: the maximum over nodes at {made.place}: {REFUSED[made.name]}")
        return [*_path(_only(made)), made.name]
    if made.what == "jump":
        return _jump(made, made.parents, jump_word(made.name, made.module))
    if made.what == "cat":
        return _cat(made)
    if made.what == "add":
        return _sum(made)
    raise _unknown(made)


def _unknown(made: Made) -> ValueError:
    # The first unknown function is reported; the others depend on it.
    first = next((parent for parent in made.parents if parent.what == "unknown"), None)
    if first is not None:
        return _unknown(first)
    reason = REASONS.get(made.name, "the models here have no such part")
    before = ", ".join(_said(parent) for parent in dict.fromkeys(made.parents))
    return ValueError(
        f"model: {made.name!r} of {before}, at {made.place}, is not understood: {reason}. Where it changes nothing, "
        "write the forward pass down without it: layers=[..]"
    )


def _said(made: Made) -> str:
    return repr(made.name) if made.what in ("module", "jump") else made.name if made.name else made.what


def _only(made: Made) -> Made:
    if len(made.parents) != 1:
        raise ValueError(
            f"model: {made.name!r} at {made.place} takes {len(made.parents)} things made of the rows; here it takes one"
        )
    return made.parents[0]


def _embeddings(terms: Sequence[Made]) -> Embeddings:
    """A sum of embeddings of the columns."""
    tables: dict[int, str] = {}
    for term in terms:
        parent = term.parents[0] if term.parents else term
        if term.what != "module" or type(term.module).__name__ != "Embedding" or parent.what not in ("rows", "column"):
            raise ValueError(
                f"model: {_said(term)} at {term.place} is not understood; integers of the rows enter nn.Embedding, one "
                "for each column, whose rows are added"
            )
        step_of(term.name, term.module)
        tables[int(parent.name) if parent.what == "column" else 0] = term.name
    if sorted(tables) != list(range(len(terms))):
        raise ValueError(
            f"model: embeddings are looked up for the columns {sorted(tables)} at {terms[0].place}; here every column "
            "of the rows has one table"
        )
    ordered = tuple(tables[column] for column in sorted(tables))
    return Embeddings(ordered[0], tables=ordered)


def _sum(made: Made) -> list[Step]:
    found = _residual(made)
    if found is not None:
        out, step, _ = found
        return [*_path(out), step]
    terms = list(_terms(made))
    if all(type(term.module).__name__ == "Embedding" for term in terms):
        return [_embeddings(terms)]
    if all(term.what == "pool" for term in terms):
        return _pooled(made, terms, "jump_sum")
    if _successive(terms):
        return [*_path(terms[-1]), "jump_sum"]
    raise ValueError(
        f"model: the sum of {' and '.join(_said(term) for term in terms)} at {made.place} is not understood; here what "
        "enters a layer, or a linear map of it, is added after the layer's activation (h + relu(conv(h))), or the "
        "states of all layers are added (jumping knowledge)"
    )


def _terms(made: Made) -> Iterator[Made]:
    if made.what == "add" and _residual(made) is None:
        for parent in made.parents:
            yield from _terms(parent)
    else:
        yield made


def _residual(made: Made) -> tuple[Made, Step, Made] | None:
    """The layer's output, the residual as a step, and the layer's input; None where it is not such a sum."""
    for out, beside in (made.parents, made.parents[::-1]):
        entry = _entry(out)
        if entry is None:
            continue
        if beside is entry:
            return out, ADD, entry
        if beside.what == "module" and type(beside.module).__name__ == "Linear" and beside.parents == (entry,):
            return out, Residual(beside.name), entry
    return None


def _entry(made: Made, *, summed: bool = False) -> Made | None:
    """The input of the layer whose output a tensor is; None where it is not a layer's output."""
    if made.what == "add":
        found = _residual(made) if summed else None
        return None if found is None else found[2]
    if made.what == "act" or (made.what == "module" and isinstance(_maybe(made), str)):
        made = _only(made)
    if made.what == "module" and is_norm(made.module):
        made = _only(made)
    return _only(made) if made.what == "module" and hasattr(made.module, "propagate") else None


def _maybe(made: Made) -> Step | None:
    return None if hasattr(made.module, "propagate") or is_norm(made.module) else step_of(made.name, made.module)


def _cat(made: Made) -> list[Step]:
    parents = made.parents
    if all(parent.what == "pool" for parent in parents):
        return _pooled(made, parents, "jump_cat")
    if len(parents) == 2 and parents[0].what == "rows":
        return [*_path(parents[1]), INPUT]
    return _jump(made, parents, "jump_cat")


def _pooled(made: Made, pools: Sequence[Made], word: str) -> list[Step]:
    """Pools of all layers' states as one pool of the joined states."""
    kinds = {pool.name for pool in pools}
    if len(kinds) > 1:
        raise ValueError(
            f"model: several pools ({', '.join(sorted(kinds))}) are joined at {made.place}; take one of them"
        )
    return [*_jump(made, [pool.parents[0] for pool in pools], word), _path(pools[0])[-1]]


def _jump(made: Made, states: Sequence[Made], word: str) -> list[Step]:
    if not _successive(states):
        raise ValueError(
            f"model: {', '.join(_said(state) for state in states)} are joined at {made.place}; here the states of all "
            "layers are, in their order, or [X | H] of the rows and the last layer's"
        )
    return [*_path(states[-1]), word]


def _successive(states: Sequence[Made]) -> bool:
    """True where these are the outputs of all layers, in order."""
    entries = [_entry(state, summed=True) for state in states]
    if not states or None in entries or any(a is not b for a, b in zip(states, entries[1:], strict=False)):
        return False
    return not any(isinstance(step, Conv) for step in _path(entries[0]))  # type: ignore[arg-type]


def _spaced(steps: Sequence[Step]) -> list[Step]:
    """The steps with ``identity`` where there is no activation between two layers."""
    out: list[Step] = []
    for step in steps:
        before = out[-1] if out else None
        convs = isinstance(step, Conv) and isinstance(before, Conv | Norm)
        maps = type(step) is Linear and (type(before) is Linear or isinstance(before, Norm))
        out += ["identity", step] if convs or maps else [step]
    return out


def difference(found: Sequence[Step], given: Sequence[Step]) -> str | None:
    """The first difference between a forward pass and its description, in one sentence; None where they agree."""
    one, other = ([step for step in steps if step != "identity"] for steps in (found, given))
    for number in range(max(len(one), len(other))):
        here, there = (steps[number] if number < len(steps) else None for steps in (one, other))
        if _alike(here, there):
            continue
        place = f"after {called(one[number - 1])!r}" if number else "at the beginning"
        return f"the forward pass has {_words(here)} {place}, where the list has {_words(there)}"
    return None


def _alike(one: Step | None, other: Step | None) -> bool:
    if isinstance(one, NamedLayer) and isinstance(other, NamedLayer):
        return one == other if not other.names else (type(one), one.name) == (type(other), other.name)
    return one == other


def _words(step: Step | None) -> str:
    if step is None:
        return "nothing"
    return f"{type(step).__name__}({step.name!r})" if isinstance(step, NamedLayer) else repr(step)
