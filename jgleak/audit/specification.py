"""The specification of one experiment: enough to run it again, and stored with its results."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jgleak.audit.recorded.recorded import Recorded
from jgleak.reading import shortened
from jgleak.renamed import renamed

POOLINGS = ("mean", "sum", "max")
"""Poolings of the pooled readout."""

PROTOCOLS = ("fedsgd", "fedavg", "target_node", "node_losses")
"""What a client may send (``jgleak.federated.observation``)."""

ENCODERS = ("rows", "linear", "embedding")
"""Encoders before the first layer."""

NORM_MODES = ("eval", "train")
"""Where batch normalisation takes its statistics from."""

LAYERS, PARAMETERS = 100, 1 << 28
"""Most convolutions of a model, and most parameters in them."""

COUNTS = (
    *("graphs", "min_nodes", "max_nodes", "layers", "hidden", "heads", "head"),
    *("local_steps", "local_loader", "batch_size", "train", "together", "max_n"),
)
"""Fields that count something; XLA counts in 32 bits."""

KNOWABLE = ("n", "adjacency", "features", "labels", "auxiliary")
"""What an attacker may be given beyond the public feature space."""

AUXILIARY = re.compile(
    r"same|split:\d*\.?\d+|random:(0?\.\d+|[01](\.0*)?):(normal|uniform)"
    r"|(?!split$|random$)(tu:)?[\w+.-]+|synthetic-\w+(:[\d.]+)+"
)
"""Where public graphs may come from."""


class Faults(ValueError):
    """One or several mistakes of a user, found together.

    Attributes:
      faults: one line each.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def run_faults(seed: int, time_limit: float) -> Iterator[tuple[str, bool]]:
    """Possible mistakes in a seed and a time limit: the message, and whether it applies."""
    yield f"time_limit: must be a positive number of seconds, got {time_limit}", not 0 < time_limit < math.inf
    yield f"seed: must lie in 0..2**32 - 1, got {shortened(seed)}", not 0 <= seed < 2**32


RENAMED = {"batch": "batch_size", "distinct": "distinct_nodes", "local_decay": "local_weight_decay"}
"""Old names of fields, which grids and programs may use until version 0.3 and stores hold."""


def current_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields under their current names."""
    return {RENAMED.get(name, name): value for name, value in fields.items()}


@renamed(**RENAMED)
@dataclasses.dataclass(frozen=True)
class Specification:
    """One attack on the clients of one data set, each a single graph and one round.

    The defaults are GRAIN's model on the embedded molecules. The fields are flat, as the options of ``jgleak attack``
    are, and the records and digests of stored audits. Grids group them in tables (``entries``); checks across tables (a
    batch and what is known, for example) need them together.

    Attributes:
      dataset: a name of ``jgleak.datasets.names()``.
      task: the task to learn; None: the data set's first; ``all``: all label columns at once, where there are several.
      path: where the data set's files are; None for the usual places.
      graphs: how many graphs, one a client but for ``batch_size``; None for the data set's default.
      min_nodes: smallest client.
      max_nodes: largest client.
      model: convolution, a name of ``jgleak.gnn.CONVOLUTIONS``.
      layers: number of convolutions.
      hidden: width of the convolutions.
      heads: attention heads (``gat``, ``gatv2``).
      activation: a name of ``jgleak.gnn.ACTIVATIONS``.
      readout: ``node_mlp``, ``pooled``, ``flattened`` or ``node_scores``.
      pooling: ``mean``, ``sum`` or ``max``, or several with commas between (``pooled`` readout).
      head: width of a map between pooling and the output (``pooled`` readout); 0: the output's map is the only one.
      norm: normalisation of every layer's pre-activations, a name of ``jgleak.gnn.NORMS``; ``none`` or None: none.
      norm_mode: ``eval``, with running statistics; ``train``, with the batch's own, which clients return with the
        update (only ``batch``).
      residual: what is added to every layer's output, a name of ``jgleak.gnn.RESIDUALS``; ``none`` or None: nothing.
        ``add`` is used where a layer's input is as wide as its output.
      jump: which layers' states the readout sees, a name of ``jgleak.gnn.JUMPS``.
      encoder: the encoder before the first layer, as wide as the convolutions: ``rows`` (none), ``linear``, or
        ``embedding`` (a table for each raw one-hot feature).
      dropout: share of entries that clients mask in training, after every layer's activation and after those of the
        readout; 0: none, or gradients in evaluation mode.
      frozen: parts that clients do not train, by their paths in the parameters: ``encoder``, ``layers_0``,
        ``readout/mlp/linears_0``.
      bonds: distinguish bond types of molecules, which the model has to use (``gine``).
      last_activation: apply the activation after the last convolution too.
      bias: give the convolutions a bias.
      loss: the text of a ``jgleak.federated.Loss``, such as ``ce`` or ``bce+smoothing:0.1``; None: ``mse`` for
        regression and ``bce`` otherwise, and for all tasks at once ``masked_mse`` and ``masked_bce``.
      normalise: subtract every feature's mean and divide by its deviation, where the data set knows them.
      protocol: what a client sends, one of ``PROTOCOLS``; None for ``fedsgd``
        where the attack reads it, and what it reads otherwise.
      local_steps: steps of gradient descent on a client under ``fedavg``.
      local_rate: their learning rate.
      local_momentum: the momentum of these steps, from 0 and below 1.
      local_weight_decay: their weight decay.
      local_loader: graphs of a step, which the client takes in their order; 0: all of them.
      batch_size: graphs of one client, whose update is their mean. The sum that secure aggregation shows of as many
        clients with a graph each is the same.
      defense: what clients do before anything leaves, as ``jgleak.defenses.parse`` reads it; the attacker knows it.
      train: epochs of training on other graphs of the data set before the round; 0: random weights.
      seed: seeds the sample of clients, the model's parameters and the attack.
      time_limit: seconds an attack may take on one client.
      attack: a name of ``jgleak.attacks.registry.ATTACKS``.
      options: options of the attack as name and text, where it has some: optimiser, steps, ...
      together: most clients attacked side by side, by attacks that can.
      know: what the attacker is given: members of ``KNOWABLE``.
      auxiliary: where public graphs come from: ``same``, the rest of the data set; ``split:ALPHA``, one part of a split
        by label with Dirichlet shares, clients being drawn from the other (GraphDLG: 1); ``random:DENSITY:normal`` or
        ``random:DENSITY:uniform``, random graphs with random features; the name of another data set.
      node_task: label nodes instead of graphs.
      distinct_nodes: assume that no two nodes of a client share their features, in the networks where GRAIN does.
      degree: keep the degree among the features.
      attributes: keep the real-valued features (the node attributes of a TUDataset).
      prior: how the attacker ranks graphs with the same gradient: ``none``, ``plain``, ``molecule`` or ``auto``
        (``molecule`` where the features name atoms, else ``plain``).
      max_n: the attacker's bound on the size of a client whose size is unknown (``N_max``); None: it has none.
      recorded: an observation file of a real client, in place of a simulated one: fields of data, model and training do
        not apply. ``batch_size``, ``protocol`` and the fields of local training come from the file.

    Raises:
      Faults: all unknown words and numbers out of range.
    """

    dataset: str = "embedded"
    task: str | None = None
    path: str | None = None
    graphs: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    model: str = "gcn"
    layers: int = 2
    hidden: int = 300
    heads: int = 2
    activation: str = "relu"
    readout: str = "node_mlp"
    pooling: str = "mean"
    head: int = 0
    norm: str | None = None
    norm_mode: str = "eval"
    residual: str | None = None
    jump: str = "last"
    encoder: str = "rows"
    dropout: float = 0.0
    frozen: Sequence[str] = ()
    bonds: bool = False
    last_activation: bool = False
    bias: bool = False
    loss: str | None = None
    normalise: bool = True
    protocol: str | None = None
    local_steps: int = 1
    local_rate: float = 0.1
    local_momentum: float = 0.0
    local_weight_decay: float = 0.0
    local_loader: int = 0
    batch_size: int = 1
    defense: str = ""
    train: int = 0
    seed: int = 0
    time_limit: float = 60.0
    attack: str = "census"
    options: Sequence[Sequence[str | float]] = ()
    together: int = 64
    know: Sequence[str] = ()
    auxiliary: str = "same"
    node_task: bool = False
    distinct_nodes: bool = True
    degree: bool = True
    attributes: bool = True
    prior: str = "auto"
    max_n: int | None = None
    recorded: Recorded | None = None

    def __post_init__(self) -> None:
        for name in ("norm", "residual"):
            if getattr(self, name) == "none":
                object.__setattr__(self, name, None)
        object.__setattr__(self, "know", tuple(self.know))
        object.__setattr__(self, "frozen", tuple(self.frozen))
        object.__setattr__(self, "options", tuple((str(name), str(value)) for name, value in self.options))
        faults = [text for text, wrong in self._faults() if wrong]
        if faults:
            raise Faults(faults)

    def _faults(self) -> Iterator[tuple[str, bool]]:
        """Possible mistakes that need no data or model: the message, and whether it applies."""
        for name in COUNTS:
            count = getattr(self, name)
            yield f"{name}: must be below 2**31, got {shortened(count)}", count is not None and count >= 2**31
        least, most = 1 if self.min_nodes is None else self.min_nodes, self.max_nodes
        heads = self.heads if self.model in ("gat", "gatv2") else 1
        entries = self.layers * (self.hidden * heads) ** 2
        yield f"layers: at most {LAYERS} convolutions are built, got {self.layers}", self.layers > LAYERS
        yield (
            f"layers, hidden, heads: the model would have about {shortened(entries)} parameters; at most {PARAMETERS} "
            "are built (1 GiB); take fewer or narrower layers",
            self.layers <= LAYERS and max(self.hidden, heads) < 2**31 and entries > PARAMETERS,
        )
        for name in ("layers", "hidden", "heads"):
            yield f"{name}: must be at least 1, got {getattr(self, name)}", getattr(self, name) < 1
        yield f"graphs: must be at least 1, got {self.graphs}", self.graphs is not None and self.graphs < 1
        yield (
            f"min_nodes, max_nodes: expected 1 <= min_nodes <= max_nodes, got {self.min_nodes}, {most}",
            least < 1 or (most is not None and most < least),
        )
        for word in sorted(set(self.know) - set(KNOWABLE)):
            yield f"know: unknown {word!r}; choose from {', '.join(KNOWABLE)}", True
        yield from run_faults(self.seed, self.time_limit)
        yield (
            f"pooling: unknown {self.pooling!r}; choose of {', '.join(POOLINGS)}, several with commas between",
            not set(self.pooling.split(",")) <= set(POOLINGS),
        )
        yield f"head: must be a width, or 0 for none, got {self.head}", self.head < 0
        plain = self.head > 0 and self.readout != "pooled"
        yield "head: only the readout 'pooled' has one; add --readout pooled", plain
        yield (
            f"norm_mode: unknown {self.norm_mode!r}; choose one of {', '.join(NORM_MODES)}",
            self.norm_mode not in NORM_MODES,
        )
        yield (
            "norm_mode: 'train' is of batch normalisation; add --norm batch",
            self.norm_mode == "train" and self.norm != "batch",
        )
        yield (
            "encoder: embeddings look raw values up; add --no-normalise (normalise = false)",
            self.encoder == "embedding" and self.normalise,
        )
        yield f"dropout: must be at least 0 and below 1, got {self.dropout}", not 0 <= self.dropout < 1
        yield (
            f"protocol: unknown {self.protocol!r}; choose one of {', '.join(PROTOCOLS)}",
            self.protocol is not None and self.protocol not in PROTOCOLS,
        )
        yield f"batch_size: must be at least 1, got {self.batch_size}", self.batch_size < 1
        yield f"local_steps: must be at least 1, got {self.local_steps}", self.local_steps < 1
        yield (
            f"local_rate: must be above 0 and finite, got {self.local_rate}",
            not 0 < self.local_rate < math.inf,
        )
        yield f"local_momentum: must be from 0 and below 1, got {self.local_momentum}", not 0 <= self.local_momentum < 1
        yield (
            f"local_weight_decay: must be at least 0 and finite, got {self.local_weight_decay}",
            not 0 <= self.local_weight_decay < math.inf,
        )
        yield f"local_loader: must be 0 (all graphs) or more, got {self.local_loader}", self.local_loader < 0
        yield (
            "auxiliary: that is the clients' own data set; the rest of it is 'same'",
            self.recorded is None and self.auxiliary.lower() == self.dataset.lower(),
        )
        yield (
            "local_steps: only clients of the protocol 'fedavg' make several; take that protocol",
            self.local_steps > 1 and self.protocol != "fedavg",
        )
        yield (
            "local_momentum, local_weight_decay, local_loader: only clients of 'fedavg' train; take that protocol",
            bool(self.local_momentum or self.local_weight_decay or self.local_loader) and self.protocol != "fedavg",
        )
        yield (
            f"auxiliary: expected 'same', 'split:1.0', 'random:0.05:normal' or a data set, got {self.auxiliary!r}",
            not AUXILIARY.fullmatch(self.auxiliary),
        )
        yield f"together: must be at least 1, got {self.together}", self.together < 1
        yield f"train: must be a number of epochs, 0 or more, got {self.train}", self.train < 0
        yield f"max_n: must be at least 1, got {self.max_n}", self.max_n is not None and self.max_n < 1

    def to_json(self) -> dict[str, Any]:
        """The fields by name, ready for JSON; ``recorded`` only where there is such a file."""
        fields = dataclasses.asdict(self)
        return {
            **{name: value for name, value in fields.items() if name != "recorded" or value is not None},
            "know": list(self.know),
            "frozen": list(self.frozen),
            "options": [list(pair) for pair in self.options],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Specification:
        """Inverse of ``to_json``, also of an earlier version; raises ``ValueError`` for unknown fields."""
        data = current_names(data)
        unknown = sorted(set(data) - {f.name for f in dataclasses.fields(Specification)})
        if unknown:
            raise ValueError(f"specification: unknown field {unknown[0]!r}")
        recorded = None if data.get("recorded") is None else Recorded(**data["recorded"])
        return Specification(**{**data, "recorded": recorded})
