"""The constants of FCF and FedMF, chosen without sight of a test rating.

``python -m benchmarks.studies.factor_choice`` prints a JSON line a candidate, and the choices (``tuned.Tuned``),
one a data set and method; ``--write`` keeps them in ``results/factor_choice.jsonl``.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from benchmarks.papers.fedgnn.rows import DATASETS
from jgleak.audit.recommender.setup import RecommenderSetup, prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import Learnt, learn

METHODS = ("fcf", "fedmf")

DECAYS = (1.0, 3.0, 5.0, 10.0)
"""Penalties on squared factors."""

SPREADS = (0.3, 0.03, 0.003)
"""Standard deviations of the initial factors: what of them is not washed out is noise in every prediction."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    datasets: Annotated[str, typer.Option(help="By commas.")] = ",".join(DATASETS),
    write: Annotated[bool, typer.Option("--write", help="Into results/factor_choice.jsonl.")] = False,
) -> None:
    """Every penalty with every start: least validation error.

    The test ratings are taken out before anything is trained: the validation part stands in their place.
    """
    records = Records()
    records.say(provenance())
    for dataset in chosen(datasets, DATASETS, "--datasets"):
        for method in METHODS:
            specification = RecommenderSpecification(dataset=dataset, method=method)
            setup = prepare(specification)
            setup = setup._replace(test=setup.held)
            constant = float(np.sqrt(np.mean((setup.held.values - setup.rest.values.mean()) ** 2)))
            errors = {(d, s): error(specification, setup, d, s, records) for d in DECAYS for s in SPREADS}
            decay, spread = min(errors, key=errors.__getitem__)
            choice = {"decay": decay, "spread": spread, "validation": errors[decay, spread], "constant": constant}
            records.say({"dataset": dataset, "method": method, "choice": choice})
    if write:
        records.write("factor_choice")


def error(
    specification: RecommenderSpecification, setup: RecommenderSetup, decay: float, spread: float, records: Records
) -> float:
    """The least validation error of a training; said and kept."""
    method = specification.method
    changed: dict[str, Any] = {f"{method}_decay": decay, f"{method}_spread": spread}
    *_, learnt = learn(specification, setup._replace(tuned=setup.tuned._replace(**changed)))
    assert isinstance(learnt, Learnt)
    tried = {"dataset": specification.dataset, "method": method, "decay": decay, "spread": spread}
    line = {"validation": learnt.validation, "epoch": learnt.epoch, "run": learnt.epochs, "seconds": learnt.seconds}
    records.say(tried | line)
    return learnt.validation


if __name__ == "__main__":
    app()
