"""The first screen: the result, for whom it holds, what it means for one person, what to do, what was not tried.

Every sentence follows from counts by a fixed rule, as in ``summary``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jgleak.audit.report.rows import Row
from jgleak.audit.report.tables import LeakRow
from jgleak.audit.results import Unit
from jgleak.names.attacks import ATTACKS, BASELINES
from jgleak.plural import counted

NOTHING_RAN = "Nothing ended"
SINGLED_OUT = "Clients are singled out"
REBUILT = "Private graphs are rebuilt"
LISTED = "Private graphs are narrowed down"
UNTOLD = "Graphs were found, and it is not known whether they are the clients'"
NOT_REBUILT = "No private graph was rebuilt"


class Verdict(NamedTuple):
    """What people who decide read first.

    Attributes:
      level: one of the constants above.
      condition: for which clients and which server it holds.
      person: what it means for one person.
      advice: changes that help or do not help.
      untried: what this audit did not try, with the number of attacks.
      by_name: the same with their names.
    """

    level: str
    condition: str
    person: str
    advice: list[str]
    untried: str
    by_name: str


LEVELS = SINGLED_OUT, REBUILT, LISTED, UNTOLD, NOT_REBUILT
"""The worst first; the worst row decides for the audit."""


def verdict(table: Sequence[LeakRow]) -> Verdict:
    """The verdict of the worst row among the attacks that read the update, with a defence or without."""
    real = [leak.row for leak in table if leak.done and not leak.row.trivial]
    level = next((one for one in LEVELS if any(_level(row) == one for row in real)), NOTHING_RAN)
    rows = [row for row in real if _level(row) == level]
    return Verdict(
        level, _condition(rows), _person(level, rows), _advice(real), *_untried([leak.row for leak in table])
    )


def _level(row: Row) -> str:
    if singled_out(row):
        return SINGLED_OUT
    if _count(row, "exact"):
        return REBUILT
    if _count(row, "truth_in_set") or _narrowed(row):
        return LISTED
    return UNTOLD if any(unit.record.get("graphs") for unit in row.done if _untold(unit)) else NOT_REBUILT


def _untold(unit: Unit) -> bool:
    """The truth of this client is unknown."""
    return unit.record["exact"] is None


def _narrowed(row: Row) -> int:
    """Clients without a known truth for which a certificate states that only the listed graphs explain the update."""
    return sum(_untold(unit) and (unit.record["certificate"] or {}).get("status") == "k_graphs" for unit in row.done)


def _count(row: Row, name: str) -> int:
    return sum(bool(unit.record[name]) for unit in row.done)


def singled_out(row: Row) -> int:
    """Clients for which a certificate states that only one graph explains the update, and no truth contradicts it."""
    return sum(
        (unit.record["certificate"] or {}).get("status") == "unique" and unit.record["truth_in_set"] is not False
        for unit in row.done
    )


def _condition(rows: Sequence[Row]) -> str:
    if not rows:
        return "No attack has ended, so that nothing can be said."
    specs = [unit.specification for row in rows for unit in row.units]
    graphs = sorted({spec["batch_size"] for spec in specs})
    steps = sorted({spec["local_steps"] for spec in specs})
    trained = sorted({_weights(row) for row in rows})
    updates = f"{_range(graphs)} graph{'s' * (graphs != [1])} and {_range(steps)} local step{'s' * (steps != [1])}"
    under = list(dict.fromkeys(_under(row) for row in rows))
    kinds = {True: "clients that ran, whose updates were recorded", False: "simulated clients from public data sets"}
    whose = " and ".join(kinds[kind] for kind in sorted({row.recorded for row in rows}, reverse=True))
    return (
        f"This holds for clients {_listed(under)}, updates of {updates}, {' and '.join(trained)} weights, a server "
        f"that follows the protocol and looks at one round, and {whose}."
    )


def _weights(row: Row) -> str:
    if row.recorded:
        return "their own"
    return "trained" if row.units[0].specification["train"] else "random"


def _under(row: Row) -> str:
    if row.recorded:
        return "as they were recorded"
    return row.sent


def _range(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _by(row: Row) -> str:
    """The attack and the defence of a row, in words."""
    return f" by {row.attack}" + (f" {_under(row)}" if not row.recorded else "")


def _person(level: str, rows: Sequence[Row]) -> str:
    if level == SINGLED_OUT:
        worst = max(rows, key=lambda row: singled_out(row) / len(row.done))
        return (
            f"In {singled_out(worst)} of {len(worst.done)} attacks{_by(worst)} the update fits one graph alone, "
            "under conditions that are listed below: whoever reads it knows, if these hold, what this client's graph "
            "is. Guidance calls that singling out."
        )
    if level in (REBUILT, LISTED):
        name = "exact" if level == REBUILT else "truth_in_set"
        worst = max(rows, key=lambda row: _count(row, name) / max(1, len(row.told)))
        if not _count(worst, name):
            return (
                f"In {_narrowed(worst)} of {len(worst.done)} attacks{_by(worst)} a certificate says that the client's "
                "graph is one of those listed, under conditions that stand below: a server that reads the update "
                "chooses from these instead of all graphs."
            )
        often = f"In {_count(worst, name)} of {len(worst.told)} attacks{_by(worst)}"
        if level == REBUILT:
            return (
                f"{often} the first graph was the client's own, though nothing proves to the server that no other "
                "fits. A guess that is often right harms a person as well as a proof does."
            )
        return (
            f"{often} the client's graph was among those listed, and not the first: a server that reads the update is "
            "left with a choice of these instead of all graphs."
        )
    if level == UNTOLD:
        return (
            "Attacks found graphs for these updates, and it is not known whether they are the clients'. Give the truth "
            "of some, to know how often such graphs are right."
        )
    if level == NOT_REBUILT:
        return "This is no proof that a person is safe: another attack, more time or more knowledge may succeed."
    return "Nothing can be said of any person yet."


def _advice(real: Sequence[Row]) -> list[str]:
    """Sentences on the audit's defences, compared with the same attack without one; where there are none, what to
    try."""
    defended = [row for row in real if not row.undefended and not row.recorded]
    if not defended and any(row.recorded for row in real):
        return [
            "These updates were recorded as they left. Record again with a change (several graphs an update, clipping "
            "with noise, another model), and audit both, under names of their own.",
            "jgleak check names the changes of the model and its training that stop each attack.",
        ]
    if not defended:
        return [
            "No defence was tried. Add some to the grid (several graphs an update, clipping with noise, pruning), and "
            "run the audit again.",
            "jgleak check names the changes of the model and its training that stop each attack.",
        ]
    bare = {row.key[:3] for row in real if row.undefended and _count(row, "truth_in_set")}
    leaks, helped = dict[str, tuple[int, int]](), dict[str, int]()
    for row in defended:
        if _count(row, "truth_in_set"):
            rebuilt, listed = leaks.get(row.defense, (0, 0))
            exact = _count(row, "exact")
            leaks[row.defense] = rebuilt + exact, listed + _count(row, "truth_in_set") - exact
        elif row.key[:3] in bare:
            helped[row.defense] = helped.get(row.defense, 0) + len(row.done)
    found = [
        f"Do not rely on {name}: under it private graphs were {_how_often(*counts)}." for name, counts in leaks.items()
    ]
    found += [
        f"Under {name} attacks that succeed without it rebuilt and listed no private graph, in "
        f"{counted(count, 'attack')} that ended. How useful the model stays is not measured here."
        for name, count in helped.items()
        if name not in leaks
    ]
    if found:
        return found
    if not any(row.undefended for row in real):
        return [
            "No attack was run without a defence, so that nothing here shows what a defence adds. Add an empty "
            "[[defense]] to the grid, and run the audit again."
        ]
    return ["No attack succeeded without a defence, so that nothing here shows what a defence adds."]


def _how_often(rebuilt: int, listed: int) -> str:
    """How often graphs were listed first, and how often only among others."""
    said = (f"rebuilt {counted(rebuilt, 'time')}" * (rebuilt > 0), f"listed, not first, {counted(listed, 'time')}")
    return " and ".join(part for part in (said if listed else said[:1]) if part)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _untried(rows: Sequence[Row]) -> tuple[str, str]:
    """What was not tried: a sentence with the number of attacks, and one with their names."""
    ran = {row.units[0].specification["attack"] for row in rows if row.done}
    left = [name for name in ATTACKS if name not in ran and name not in BASELINES]
    attacks = f"{len(left)} of jgleak's {len(ATTACKS) - len(BASELINES)} attacks" if left else ""
    others = "several rounds of one client together; a server that changes the model; unpublished attacks"
    named = f"{attacks} ({', '.join(left)})" if left else ""
    short, long = (f"Not tried: {'; '.join(filter(None, (said, others)))}." for said in (attacks, named))
    return short, long
