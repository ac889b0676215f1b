"""Events as text and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from jgleak.audit.recommender.leaks import AttackedUsers
from jgleak.audit.recommender.setup import RecommenderSetup
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import Epoch, Learnt
from jgleak.defenses.privacy import Privacy
from jgleak.plural import counted


def data_text(setup: RecommenderSetup) -> str:
    """The data in a line."""
    rest, held, test = (f"{len(part):,}" for part in (setup.rest, setup.held, setup.test))
    return (
        f"{setup.name}: {setup.rest.n_users:,} users, {setup.rest.n_items:,} items; {rest} ratings to learn from, "
        f"{held} to choose by, {test} to test on"
    )


def epoch_text(epoch: Epoch) -> str:
    """An epoch in a line."""
    compiled = " (with compilation)" if epoch.epoch == 1 else ""
    return (
        f"epoch {epoch.epoch}: validation RMSE {epoch.validation:.4f}, {epoch.clients_per_second:,.0f} clients/s"
        f"{compiled}"
    )


def privacy_text(privacy: Privacy) -> str:
    """What a defence guarantees: as FedGNN counts, and composed over all that a client sends."""
    if math.isinf(privacy.epsilon):
        return f"privacy: none guaranteed; {privacy.reason}"
    stated = "" if privacy.per_coordinate is None else f"epsilon {privacy.per_coordinate:.3g} an entry and round; "
    return (
        f"privacy: {stated}epsilon {privacy.epsilon:,.3g} for the values of all entries over "
        f"{counted(privacy.rounds, 'round')}, not for which rows are sent (delta {privacy.delta:g}; {privacy.reason})"
    )


def errors_table(learnt: Learnt, specification: RecommenderSpecification) -> Table:
    """RMSE of the method beside offsets alone and the mean rating."""
    speed = f", {learnt.clients_per_second:,.0f} clients/s" if learnt.epochs else ""
    title = f"RMSE, best of {counted(learnt.epochs, 'epoch')}: {learnt.epoch}{speed}" if learnt.epochs else "RMSE"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("method")
    table.add_column("validation", justify="right")
    table.add_column("test", justify="right")
    if specification.method != "bias":
        table.add_row(method_title(specification), f"{learnt.validation:.4f}", f"{learnt.test:.4f}")
    table.add_row("offsets of users and items alone", f"{learnt.bias_validation:.4f}", f"{learnt.bias_test:.4f}")
    table.add_row("the mean rating for everything", "", f"{learnt.mean_test:.4f}")
    return table


def method_title(specification: RecommenderSpecification) -> str:
    """The name of a method with its settings."""
    if specification.method != "fedgnn":
        return {"fcf": "FCF", "fedmf": "FedMF", "bias": "offsets alone"}[specification.method]
    parts = [f"FedGNN ({specification.network}, {specification.settings})"]
    parts += [specification.defense] if specification.defense else []
    parts += [f"M = {specification.pseudo}"] if specification.pseudo else []
    return ", ".join(parts)


def leaks_table(rows: Sequence[AttackedUsers]) -> Table:
    """How well real items are distinguished from pseudo items, and errors of ratings in units of a level; guesses in
    brackets."""
    users = rows[0].users if rows else 0
    table = Table(
        title=f"What the server learns about {counted(users, 'user')} (guessing in brackets)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("protection")
    for column in ("updates", "AUC real/pseudo", "precision", "rating RMSE", "s a user"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(row.title, str(row.rounds), *leak_cells(row), f"{row.seconds:.2f}")
    return table


SHOWN = ("auc", "precision_at_size", "rmse_all")
"""What of a ``Leak`` is shown: AUC of real against pseudo items, precision at the history's length, rating error."""


def leak_cells(row: AttackedUsers) -> list[str]:
    """The columns ``SHOWN`` of one row."""
    return [f"{_number(row, name)} ({_number(row, name, guessed=True)})" for name in SHOWN]


def _number(row: AttackedUsers, name: str, *, guessed: bool = False) -> str:
    interval = (row.guesses if guessed else row.means).get(name)
    return "-" if interval is None or math.isnan(interval.mean) else f"{interval.mean:.3f}"
