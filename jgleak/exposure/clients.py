"""How clients train and what they send, as far as the protocol prescribes it."""

from __future__ import annotations

import dataclasses

from jgleak.attacks.facts import fact
from jgleak.defenses import Defense, parse
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.renamed import renamed

NODES = 20
"""Nodes of a graph where nothing else is given: a usual molecule."""


@renamed(graphs="batch_size")
@dataclasses.dataclass(frozen=True)
class Clients:
    """What is known of every client's round without its data.

    Attributes:
      loss: the text of a ``Loss``; None: ``bce`` of several outputs, ``mse`` of one.
      batch_size: number of graphs behind an update.
      local: how a client trains; None: it sends one gradient.
      statistics: clients return running statistics of batch normalisation in training mode beside the update.
      defense: what a client does before anything leaves, as ``jgleak.defenses.parse`` reads it.
      nodes: number of nodes of a graph; the default is about the size of a molecule.
      noise: deviation of the noise on every entry that an observation file states; None: it states none.
      whence: where that noise comes from, in words.

    Raises:
      ValueError: an unknown defence or loss; less than one graph or node; a loader of more graphs than there are.
    """

    loss: str | None = None
    batch_size: int = 1
    local: LocalTraining | None = None
    statistics: bool = True
    defense: str = ""
    nodes: int = NODES
    noise: float | None = None
    whence: str = ""

    def __post_init__(self) -> None:
        for name in ("batch_size", "nodes"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name}: a whole number from 1, got {getattr(self, name)!r}")
        loader = None if self.local is None else self.local.loader
        if loader is not None and loader > self.batch_size:
            raise ValueError(f"local: a step takes {loader} graphs, and a client has {self.batch_size}; take fewer")
        if self.loss is not None:
            Loss.of(self.loss)
        parse(self.defense)

    @property
    def steps(self) -> int:
        """Local steps behind an update."""
        return 1 if self.local is None else self.local.steps

    @property
    def inexact(self) -> bool:
        """The update carries noise that a file states, or was rounded to a shorter type."""
        return bool(self.noise) or any(step.kind.rounding for step in self.protection.steps)

    @property
    def protection(self) -> Defense:
        """The defence, and the noise that a file states."""
        stated = f"gaussian:{self.noise}" if self.noise else ""
        return parse("+".join(part for part in (self.defense, stated) if part))

    @property
    def ways(self) -> frozenset[str]:
        """The entries of ``fact.PROTOCOLS`` that apply to an update; a defence that no fact accounts for has its own
        name."""
        found, local = set[str](), self.local
        if local is not None and local.momentum:
            found.add(fact.MOMENTUM)
        if local is not None and local.weight_decay:
            found.add(fact.DECAY)
        if local is not None and local.optimiser == "adam":
            found.add(fact.ADAM)
        if self.steps > 1 and not found:  # the others are those of one step or several
            found.add(fact.STEPS)
        if self.batch_size > 1:
            found.add(fact.BATCH)
        for step in self.protection.steps:
            kind = step.kind
            marks = (
                (kind.scales, fact.CLIPPING),
                (kind.drops, fact.PRUNING),
                (kind.name in ("quantise", "float16", "bfloat16"), fact.QUANTISATION),  # zeros stay, though it is noise
                (kind.deviation is not None, fact.NOISE),
            )
            found.add(next((word for holds, word in marks if holds), f"the defence {kind.name}"))
        return frozenset(found or {fact.ONE})
