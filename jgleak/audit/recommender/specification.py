"""What one recommender experiment is: enough to run it again. JAX is not needed to write one down."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

GRAPHS = ("gat", "gcn", "ggnn")
"""Graph networks of FedGNN."""

METHODS = ("fedgnn", "fcf", "fedmf", "bias")
"""Ways to learn from ratings."""

SETTINGS = ("paper", "tuned")
"""Constants of training: FedGNN's own (section 4.1), or ``jgleak.audit.recommender.tuned``."""

EXPANSIONS = ("plain", "trainable", "encrypted")
"""Where neighbours come from: counted in the clear, so that their embeddings stay as they were then or are trained on;
or from the third party that sees ciphertexts."""


@dataclasses.dataclass(frozen=True)
class RecommenderSpecification:
    """One federated recommender, and what its server can learn about its users.

    Attributes:
      dataset: a name of ``jgleak.datasets.RATING_SETS``.
      network: a member of ``GRAPHS``.
      method: a member of ``METHODS``.
      settings: a member of ``SETTINGS``.
      neighbours: most anonymous neighbours in a user's graph; 0 for none.
      expansion: a member of ``EXPANSIONS``.
      defense: what clients do to their updates, as ``jgleak.defenses.parse`` reads it. FedGNN's is
        ``clip-inf:0.1+laplace:0.2828`` (delta = 0.1, lambda = 0.2; the deviation is sqrt(2) times the scale).
      pseudo: items without a rating that every client sends made-up gradients for (FedGNN's M).
      epochs: of training; None for what the settings say.
      seed: of the validation part, the parameters, the order of clients, noise, and the users attacked.
      attack: attack updates at the trained parameters.
      rounds: numbers of updates of one user that the server has seen when it attacks.
      users: how many users are attacked.
      path: where the data set's files are; None for the usual places.
      options: options of the attack as name and text (``RecommenderSettings``).

    Raises:
      ValueError: an unknown word, a number out of range, or a protection of a method that has none here.
    """

    dataset: str = "synthetic-ratings"
    network: str = "gat"
    method: str = "fedgnn"
    settings: str = "tuned"
    neighbours: int = 16
    expansion: str = "plain"
    defense: str = ""
    pseudo: int = 0
    epochs: int | None = None
    seed: int = 0
    attack: bool = False
    rounds: Sequence[int] = (1, 5, 20)
    users: int = 50
    path: str | None = None
    options: Sequence[Sequence[str | float]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", tuple(self.rounds))
        object.__setattr__(self, "options", tuple((str(name), str(value)) for name, value in self.options))
        words = (("network", GRAPHS), ("method", METHODS), ("settings", SETTINGS), ("expansion", EXPANSIONS))
        for field, known in words:
            if getattr(self, field) not in known:
                raise ValueError(f"{field}: unknown {getattr(self, field)!r}; choose one of {', '.join(known)}")
        for field, least in (("neighbours", 0), ("pseudo", 0), ("users", 1), ("epochs", 1)):
            number = getattr(self, field)
            if number is not None and number < least:
                raise ValueError(f"{field}: must be at least {least}, got {number}")
        if not self.rounds or min(self.rounds) < 1:
            raise ValueError(f"rounds: need numbers from 1, got {', '.join(map(str, self.rounds)) or 'none'}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: must lie in 0..2**32 - 1, got {self.seed}")
        if self.options and not self.attack:
            raise ValueError("options: they are the attack's, and there is none; give --attack, or leave --option out")
        if self.method != "fedgnn" and (self.defense or self.pseudo or self.attack):
            raise ValueError(
                f"method: defences, pseudo items and attacks are of FedGNN's updates; {self.method} only serves to "
                "compare errors, leave them out"
            )
        if self.method != "fedgnn" and self.settings == "paper":
            raise ValueError(f"settings: FedGNN's paper gives no constants for {self.method}; take tuned")
        if self.expansion != "plain" and (self.method != "fedgnn" or not self.neighbours):
            raise ValueError("expansion: only FedGNN with neighbours expands graphs; leave --expansion out")

    def to_json(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        options = [list(pair) for pair in self.options]
        return {**dataclasses.asdict(self), "rounds": list(self.rounds), "options": options}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RecommenderSpecification:
        """Inverse of ``to_json``; raises ``ValueError`` for unknown fields."""
        unknown = sorted(set(data) - {f.name for f in dataclasses.fields(RecommenderSpecification)})
        if unknown:
            raise ValueError(f"specification: unknown field {unknown[0]!r}")
        return RecommenderSpecification(**data)
