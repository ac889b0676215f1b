"""The entries of a grid: the fields of each table, its label, and its mistakes."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from jgleak.attacks.registry import get_attack
from jgleak.audit.specification import ENCODERS, NORM_MODES, Faults, Specification
from jgleak.datasets import tasks
from jgleak.defenses import parse
from jgleak.did_you_mean import did_you_mean
from jgleak.federated import Loss
from jgleak.gnn import ACTIVATIONS, CONVOLUTIONS, JUMPS, NORMS, RESIDUALS
from jgleak.names.parts import READOUTS

AXES: Mapping[str, tuple[str, ...]] = {
    "data": (
        *("dataset", "task", "path", "graphs", "min_nodes", "max_nodes"),
        *("normalise", "node_task", "distinct_nodes", "degree", "attributes", "bonds"),
    ),
    "model": (
        *("model", "layers", "hidden", "heads", "activation", "readout", "pooling", "head"),
        *(
            "norm",
            "norm_mode",
            "residual",
            "jump",
            "encoder",
            "dropout",
            "frozen",
            "last_activation",
            "bias",
            "loss",
            "train",
        ),
    ),
    "attack": ("attack", "options", "know", "auxiliary", "prior", "max_n", "together", "time_limit"),
    "defense": (
        *("defense", "batch_size", "protocol"),
        *("local_steps", "local_rate", "local_momentum", "local_weight_decay", "local_loader"),
    ),
}
"""Fields of ``Specification`` that a table of each kind may give, beside ``name``."""

_TYPES = get_type_hints(Specification)
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "model": tuple(CONVOLUTIONS),
    "activation": tuple(ACTIVATIONS),
    "readout": tuple(READOUTS),
    "norm": ("none", *NORMS),
    "norm_mode": NORM_MODES,
    "residual": ("none", *RESIDUALS),
    "jump": tuple(JUMPS),
    "encoder": ENCODERS,
}
_WORDS = {int: "a whole number", float: "a number", str: "text in quotes", bool: "true or false"}


def label(axis: str, entry: Mapping[str, Any]) -> str:
    """The label of an entry: its ``name``, or its main field (``none`` without a defence)."""
    if "name" in entry:
        return entry["name"]
    main = {"data": "dataset"}.get(axis, axis)
    text = str(entry.get(main, getattr(Specification(), main)))
    return f"{text}/{entry['task']}" if axis == "data" and "task" in entry else text or "none"


def entry_faults(axis: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """Every mistake of one entry, as ``.field: what is wrong``, without loading anything."""
    sound: dict[str, Any] = {}
    for key, value in entry.items():
        fault = _misfit(axis, key, value)
        if fault is not None:
            yield f".{key}: {fault}"
        elif key != "name":
            sound[key] = value
    if axis == "attack" and "attack" not in entry:
        yield ".attack: missing; name one of `jgleak list`"
    given = {"dataset": "-", **sound, "options": tuple(sound.get("options", {}).items())}
    if sound.get("encoder") == "embedding":
        given.setdefault("normalise", False)  # a field of the data, in another table
    try:
        Specification(**given)
    except Faults as error:
        yield from (f".{fault}" for fault in error.faults)
    for field, choices in _CHOICES.items():
        if field in sound and sound[field] not in choices:
            hint = did_you_mean(sound[field], choices)
            yield f".{field}: unknown {sound[field]!r}; {hint}choose one of {', '.join(choices)}"
    yield from _looked_up(sound)


def _looked_up(sound: Mapping[str, Any]) -> Iterator[str]:
    """Mistakes that the registries of attacks, defences and data sets find."""
    if "attack" in sound:
        try:
            attack = get_attack(sound["attack"])
        except (KeyError, ValueError) as error:
            yield f".{error.args[0]}"
        else:
            yield from _option_faults(attack.with_options, dict(sound.get("options", {})))
    if "defense" in sound:
        try:
            parse(sound["defense"])
        except ValueError as error:
            yield f".{error}"
    if "loss" in sound:
        try:
            Loss.of(sound["loss"])
        except ValueError as error:
            yield f".{error}"
    if "dataset" in sound or "task" in sound:
        name, task = sound.get("dataset", Specification.dataset), sound.get("task")
        try:
            known = tasks(name)
        except ValueError as error:
            yield f".dataset: {error}"
        else:
            if task is not None and task not in known:
                choice = f"choose one of {', '.join(known)}" if known else "it has only one, leave task out"
                yield f".task: {name} has no task {task!r}; {choice}"


def _option_faults(with_options: Any, options: dict[str, Any]) -> Iterator[str]:
    """One fault after another: a refused option is left out, and the others are tried again."""
    options = {name: str(value) for name, value in options.items()}
    while options:
        try:
            with_options(options)
            return
        except ValueError as error:
            named = re.match(r"option '([^']*)': (.*)", str(error), re.DOTALL)
            if named is None or named[1] not in options:
                yield f".options: {error}"
                return
            yield f".options.{named[1]}: {named[2]}"
            del options[named[1]]


def _misfit(axis: str, key: str, value: Any) -> str | None:
    """What is wrong with the name or the type of one field, or None."""
    if key == "name":
        return None if isinstance(value, str) and value.strip() else f"expected some text, got {value!r}"
    if key not in AXES[axis]:
        home = next((other for other, fields in AXES.items() if key in fields), None)
        if home is not None:
            return f"belongs into a [[{home}]] table"
        known = ("name", *AXES[axis])
        return f"unknown; {did_you_mean(key, known)}a [[{axis}]] table has {', '.join(known)}"
    if key == "options":
        plain = isinstance(value, dict) and all(isinstance(v, str | int | float) for v in value.values())
        return None if plain else f"expected a table of names and values, as {{steps = 300}}, got {value!r}"
    hint = _TYPES[key]
    if get_origin(hint) is Sequence:
        words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return None if words else f'expected a list of words, as ["n"], got {value!r}'
    wanted = next(t for t in get_args(hint) if t is not types.NoneType) if get_args(hint) else hint
    fits = type(value) is wanted or (wanted is float and type(value) is int)
    return None if fits else f"expected {_WORDS[wanted]}, got {value!r}"
