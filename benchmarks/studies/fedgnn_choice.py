"""Constants for training under FedGNN's defences, chosen without sight of a test rating.

``python -m benchmarks.studies.fedgnn_choice`` prints a JSON line a candidate, and the choice (``tuned.Protected``);
``--write`` keeps them in ``results/fedgnn_choice.jsonl``.
"""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from benchmarks.papers.fedgnn.rows import CURVE, PROTECTED
from jgleak.audit.recommender.setup import RecommenderSetup, prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import Learnt, learn
from jgleak.audit.recommender.tuned import Protected
from jgleak.federated.recommender.model import Reduction

RATES = {"sum": (0.1, 0.2, 0.4, 0.8), "mean": (0.4, 0.8, 1.6, 3.2)}
"""Sizes of steps. A mean's gradients are smaller, so its are larger."""

SHARES = (0.0, 0.03, 0.1, 0.3)
"""What the network and the embeddings take of a step."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    dataset: Annotated[str, typer.Option(help="Whose training ratings choose.")] = CURVE,
    seed: Annotated[int, typer.Option(help="Of the validation part, and of all else; the tables have seed 0.")] = 1,
    epochs: Annotated[int, typer.Option(min=1, help="At most.")] = Protected().epochs,
    write: Annotated[bool, typer.Option("--write", help="Into results/fedgnn_choice.jsonl.")] = False,
) -> None:
    """First reduction and rate at the second smallest share, then the share: least validation error.

    The test ratings are taken out before anything is trained: the validation part stands in their place.
    """
    specification = RecommenderSpecification(dataset=dataset, seed=seed, epochs=epochs, **PROTECTED)  # type: ignore[arg-type]
    setup = prepare(specification)
    setup = setup._replace(test=setup.held)
    records = Records()
    records.say(provenance() | {"specification": specification.to_json()})
    first = [
        Protected(rate=rate, graph_share=SHARES[1], reduction=reduction, epochs=epochs)
        for reduction in get_args(Reduction)
        for rate in RATES[reduction]
    ]
    errors = {candidate: error(specification, setup, candidate, records) for candidate in first}
    best = min(errors, key=errors.__getitem__)
    for share in SHARES:
        candidate = best._replace(graph_share=share)
        if candidate not in errors:
            errors[candidate] = error(specification, setup, candidate, records)
    best = min(errors, key=errors.__getitem__)
    records.say({"choice": best._asdict(), "validation": errors[best]})
    if write:
        records.write("fedgnn_choice")


def error(
    specification: RecommenderSpecification, setup: RecommenderSetup, candidate: Protected, records: Records
) -> float:
    """The least validation error of a training, infinite where it diverges; said and kept."""
    try:
        *_, learnt = learn(specification, setup._replace(tuned=setup.tuned._replace(protected=candidate)))
    except ValueError as reason:
        records.say({**candidate._asdict(), "diverged": str(reason)})
        return float("inf")
    assert isinstance(learnt, Learnt)
    line = {"validation": learnt.validation, "epoch": learnt.epoch, "run": learnt.epochs, "seconds": learnt.seconds}
    records.say({**candidate._asdict(), **line})
    return learnt.validation


if __name__ == "__main__":
    app()
