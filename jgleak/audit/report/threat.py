"""The assumptions of each row: what the server sees and knows, and the conditions of its certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jgleak.audit.report.rows import Panel, Row
from jgleak.audit.results import Unit
from jgleak.plural import counted
from jgleak.precision import TINY

PUBLIC = "the model, its parameters and the schema of node features"
"""What every server knows."""

KNOWN = {
    "n": "the number of nodes of each client's graph",
    "adjacency": "the edges of each client's graph",
    "features": "the node features of each client's graph",
    "labels": "the labels",
}
"""Knowledge beyond the model, its parameters and the feature schema, in words."""


SUBJECTS: tuple[Callable[[Row], str], ...] = (
    lambda row: "",
    lambda row: row.attack,
    lambda row: row.under,
    lambda row: f"{row.attack}, {row.under}",
)
"""The scopes of a fact, from all rows to one."""


RANKINGS = {
    "none": "none: a digest decides which of them comes first",
    "plain": "by structure alone: smaller graphs, shorter cycles, repeated parts first",
    "molecule": "chemistry, then structure",
    "auto": "chemistry where the features name atoms, structure elsewhere",
}
"""The priors in words."""


class Assumptions(NamedTuple):
    """Facts of one panel, by title.

    Attributes:
      panel: the rows.
      shared: facts of all of them.
      own: facts that differ, stated once for each attack or defence where they depend on it alone, else for each row.
      conditions: the conditions of each row's certificates, with the number of certificates.
    """

    panel: Panel
    shared: dict[str, str]
    own: list[tuple[str, dict[str, str]]]
    conditions: list[tuple[Row, list[str]]]


def assumptions(panel: Panel) -> Assumptions:
    """What all rows of a panel assume, and what differs."""
    facts = [(row, _facts(row)) for row in panel.rows]
    own: dict[str, dict[str, str]] = {}
    shared: dict[str, str] = {}
    for title in dict.fromkeys(title for _, found in facts for title in found):
        for who, text in _said(title, facts).items():
            (own.setdefault(who, {}) if who else shared)[title] = text
    conditions = [(row, listed) for row in panel.rows if (listed := _conditions(row))]
    return Assumptions(panel, shared, list(own.items()), conditions)


def _said(title: str, facts: Sequence[tuple[Row, dict[str, str]]]) -> dict[str, str]:
    """One fact by the fewest names that determine it: "" for all rows, the attack, the defence, or both."""
    said: dict[str, str | None] = {}
    for name in SUBJECTS:
        said = {name(row): found.get(title) for row, found in facts}
        if all(said[name(row)] == found.get(title) for row, found in facts):
            break
    return {who: text for who, text in said.items() if text is not None}


UNBOUNDED = "the attacker knows no bound; each certificate states the largest number of nodes searched"
"""Without ``max_n``."""


def in_words(rows: Sequence[Row]) -> list[str]:
    """The threat model in a few sentences: what the server sees, and what each attack knows besides."""
    seen = dict.fromkeys(seen_by_server(row) for row in rows)
    sentences = [
        f"The attacker is the server itself, which follows the protocol. It sees {'; or '.join(seen)}.",
        f"It knows {PUBLIC}, and which defence clients apply.",
    ]
    told: dict[str, dict[str, None]] = {}
    for row in rows:
        told.setdefault(row.attack, {}).update(dict.fromkeys(_given(row.units[0].specification)))
    sentences += [f"{attack} also knows {' and '.join(given)}." for attack, given in told.items() if given]
    return sentences if rows else []


def _facts(row: Row) -> dict[str, str]:
    spec = row.units[0].specification
    if row.recorded:
        return _recorded(row, spec)
    facts = {
        "Data": described_data(spec),
        "Model": described_model(row.units[0]),
        "Parameters": f"trained for {counted(spec['train'], 'epoch')} before the round"
        if spec["train"]
        else "random, untrained",
        "The server sees": seen_by_server(row),
        "The attacker knows": _known(spec),
        "Largest graph looked for": f"{spec['max_n']} nodes (n_max)" if spec["max_n"] else UNBOUNDED,
        "Ranking of graphs with the same gradient": RANKINGS[spec["prior"]],
        "Defence": f"{spec['defense']}, known to the attacker" if spec["defense"] else "none",
        "Time limit": f"{spec['time_limit']:g} s for each client",
    }
    if spec["options"]:
        facts["Options of the attack"] = ", ".join(f"{name} = {value}" for name, value in spec["options"])
    noise = sorted({c["noise"] for c in _certificates(row) if (c["noise"] or 0.0) > max(TINY.values())})
    if noise:
        span = f"{noise[0]:.1e}" if len(noise) == 1 else f"{noise[0]:.1e} to {noise[-1]:.1e}"
        facts["Noise that certificates allow for"] = f"deviation {span} on every entry of the update"
    return facts


def _recorded(row: Row, spec: Mapping[str, Any]) -> dict[str, str]:
    """The facts of recorded clients, as far as their files state them."""
    files, noise = {unit.cell.get("file", "") for unit in row.units}, spec["recorded"]["noise"]
    told = len({unit.cell.get("file", "") for unit in row.told})
    facts = {
        "Data": f"{counted(len(files), 'observation file')}, the truth known of {told} of them",
        "Model": "as each file has it, with the parameters that the server sent",
        "The server sees": "; ".join(sorted({_seen_of(unit) for unit in row.units})),
        "The attacker knows": _known(spec),
        "Largest graph looked for": f"{spec['max_n']} nodes (n_max)" if spec["max_n"] else UNBOUNDED,
        "Ranking of graphs with the same gradient": RANKINGS[spec["prior"]],
        "Defence": "what the files say" + ("" if noise is None else f", and noise of deviation {noise:g}"),
        "Time limit": f"{spec['time_limit']:g} s for each client",
    }
    if spec["options"]:
        facts["Options of the attack"] = ", ".join(f"{name} = {value}" for name, value in spec["options"])
    return facts


def described_data(spec: Mapping[str, Any]) -> str:
    """The data set of simulated clients in words."""
    sizes = {"min_nodes": "from {} nodes", "max_nodes": "up to {} nodes"}
    limits = [text.format(spec[name]) for name, text in sizes.items() if spec[name] is not None]
    task = "" if spec["task"] is None else f", task {spec['task']}"
    by_node, bonds = (", labels by node" if spec["node_task"] else ""), (", bond types" if spec["bonds"] else "")
    columns = "columns normalised by the data set's mean and deviation" if spec["normalise"] else "raw columns"
    return ", ".join([f"{spec['dataset']}{task}{by_node}{bonds}", *limits, columns])


def described_model(unit: Unit) -> str:
    """The model of a client in words; for a recorded client from its file."""
    spec = unit.specification
    if spec.get("recorded") is not None:
        return unit.record.get("model") or ""
    heads = f", {spec['heads']} heads" if spec["model"] in ("gat", "gatv2") else ""
    head = f", then a map of width {spec['head']}" if spec["head"] else ""
    pooling = f" ({spec['pooling']}{head})" if spec["readout"] == "pooled" else ""
    extras = {"bias": "with bias", "last_activation": "activation after the last convolution too"}
    words = [
        f"{spec['model'].upper()} of {counted(spec['layers'], 'layer')}, width {spec['hidden']}{heads}",
        spec["activation"],
    ]
    parts = {
        "norm": f"{spec['norm']} normalisation ({spec['norm_mode']} mode)",
        "residual": f"residual {spec['residual']}",
        "jump": f"jumping knowledge {spec['jump']}",
        "encoder": f"encoder {spec['encoder']}",
        "dropout": f"dropout {spec['dropout']:g}",
        "frozen": f"frozen {' and '.join(spec['frozen'])}",
    }
    plain = {"norm": None, "residual": None, "jump": "last", "encoder": "rows", "dropout": 0.0, "frozen": []}
    words += [text for name, text in parts.items() if spec[name] != plain[name]]
    words += [f"readout {spec['readout']}{pooling}", *(text for name, text in extras.items() if spec[name])]
    return ", ".join(words)


def seen_by_server(row: Row) -> str:
    """What the server sees of a row's clients, in words."""
    spec = row.units[0].specification
    if row.recorded:
        return "; or ".join(sorted({_seen_of(unit) for unit in row.units}))
    protocols = sorted({unit.record["protocol"] for unit in row.done}) or [spec["protocol"] or "fedsgd"]
    return "; ".join(_sends(protocol, spec) for protocol in protocols)


def _seen_of(unit: Unit) -> str:
    """What the server sees of a recorded client, by its file."""
    return _sends(unit.specification["protocol"] or "fedsgd", unit.specification)


def _sends(protocol: str, spec: Mapping[str, Any]) -> str:
    graphs = "one graph" if spec["batch_size"] == 1 else f"{spec['batch_size']} graphs (their mean)"
    steps = f"{counted(spec['local_steps'], 'step')} of size {spec['local_rate']:g}"
    beside = {
        "local_momentum": "momentum {:g}",
        "local_weight_decay": "weight decay {:g}",
    }
    said = [text.format(spec[name]) for name, text in beside.items() if spec.get(name)]
    said += [f"{counted(spec['local_loader'], 'graph')} a step"] if spec.get("local_loader") else []
    steps += f" ({', '.join(said)})" if said else ""
    texts = {
        "fedsgd": f"the gradient over {graphs} of one client, in one round (FedSGD)",
        "fedavg": f"the change of the weights after {steps} on {graphs} of one client (FedAvg)",
        "target_node": "the gradient of one node's loss, the target",
        "node_losses": "the gradient of every node's loss, one by one",
    }
    return texts[protocol]


def _known(spec: Mapping[str, Any]) -> str:
    return "; ".join([PUBLIC, *_given(spec)])


def _given(spec: Mapping[str, Any]) -> list[str]:
    given = [KNOWN[name] for name in spec["know"] if name in KNOWN]
    if "auxiliary" in spec["know"]:
        source = "the rest of the data set" if spec["auxiliary"] == "same" else spec["auxiliary"]
        given.append(f"public graphs ({source})")
    return given


def _certificates(row: Row) -> list[dict[str, Any]]:
    return [unit.record["certificate"] for unit in row.done if unit.record["certificate"] is not None]


def _conditions(row: Row) -> list[str]:
    """Every condition of the row's certificates, with how many of them rest on it."""
    found = _certificates(row)
    counted = Counter(condition for certificate in found for condition in dict.fromkeys(certificate["conditions"]))
    return [f"{condition} ({times} of {len(found)})" for condition, times in counted.most_common()]
