"""The audit in plain words, every sentence derived from counts and intervals by a fixed rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jgleak.audit.outcome import ended_by_time
from jgleak.audit.report.baselines import FEWEST, comparisons
from jgleak.audit.report.rows import Estimate, Row, explained, graphs, panels
from jgleak.audit.report.tables import LeakRow
from jgleak.audit.report.threat import in_words
from jgleak.audit.results import Audit
from jgleak.names.attacks import BASELINES
from jgleak.plural import counted

FEW = 10
"""With fewer clients than this an interval is too wide to be useful, and the summary states it."""

NO_EVIDENCE = (
    "An attack that rebuilds nothing is no evidence of safety: another attack, a longer search or more knowledge may."
)
UNFINISHED = "Attacks that broke down or were skipped are counted in no rate: they say nothing either way."


class Section(NamedTuple):
    """A few sentences under a heading."""

    title: str
    sentences: list[str]


class Summary(NamedTuple):
    """One sentence above all, and the sections below it; those without a sentence are left out."""

    headline: str
    sections: list[Section]


def summary(audit: Audit, table: Sequence[LeakRow]) -> Summary:
    """What leaks, what defences change, what guesses reach, what is missing, and the limits of the audit.

    Args:
      audit: the store.
      table: its leak table, ``jgleak.audit.report.tables.leaks``.
    """
    real = [leak for leak in table if leak.done and not leak.row.trivial]
    sections = (
        Section("Without a defence", _undefended(real)),
        Section("With a defence", _defended(real)),
        Section("Recorded updates", _recorded(real)),
        Section("Under which assumptions", in_words([leak.row for leak in real])),
        Section("Beside guessing", _guessing([leak.row for leak in table])),
        Section("What was run", _coverage(audit)),
        Section("How far this goes", _limits(audit, real)),
    )
    return Summary(_headline(real), [section for section in sections if section.sentences])


def _headline(real: Sequence[LeakRow]) -> str:
    worst = _strongest([leak for leak in real if leak.row.undefended or leak.row.recorded] or real)
    if worst is None:
        return "No attack of this audit has ended yet: there is nothing to report."
    row = worst.row
    where = row.sent[0].upper() + row.sent[1:]
    if row.recorded:
        where = f"Of the recorded updates {row.data}"
        if not row.told:
            return f"{where}, {_found(row)}"
    if _hits(row):
        return f"{where}, an honest-but-curious server with the attack {row.attack} {_rebuilt(row)}."
    listed = sum(bool(unit.record["truth_in_set"]) for unit in row.done)
    if listed:
        return f"{where}, {row.attack} lists the true graph, among others, in {listed} of {_tries(row)}."
    return f"{where}, no attack of this audit rebuilt a private graph exactly, which is no evidence of safety."


def _strongest(leaks: Iterable[LeakRow]) -> LeakRow | None:
    """The attack that leaks most: by exact reconstructions, then sets with the truth, then GSM-2."""
    names = ("exact", "truth in set", "GSM-2")
    return max(leaks, key=lambda leak: tuple(_mean(leak.estimates[name]) for name in names), default=None)


def _mean(estimate: Estimate | None) -> float:
    return -1.0 if estimate is None else estimate.mean


def _hits(row: Row) -> int:
    return sum(bool(unit.record["exact"]) for unit in row.done)


def _rebuilt(row: Row) -> str:
    """How often the private graph was rebuilt; several seeds may have drawn the same graph."""
    different = len(graphs(row.told))
    if different == len(row.told):
        return f"rebuilt {_hits(row) or 'none'} of {counted(different, 'private graph')} exactly"
    return f"rebuilt the private graph exactly in {_hits(row) or 'none'} of {_tries(row)}"


def _tries(row: Row) -> str:
    tries, different = len(row.told), len(graphs(row.told))
    return f"{counted(tries, 'attack')} on {counted(different, 'private graph')}"


def _undefended(real: Sequence[LeakRow]) -> list[str]:
    chosen = [leak for leak in real if leak.row.undefended]
    return [f"{_place(leak.row, chosen)}{_sentence(leak)}" for leak in chosen]


def _defended(real: Sequence[LeakRow]) -> list[str]:
    """For each defence the attack that leaks most, since a defence is as good as its worst case."""
    sentences, rows = [], [leak.row for leak in real if not leak.row.undefended and not leak.row.recorded]
    leaks = {leak.row.key: leak for leak in real}
    for panel in panels(rows):
        for defense in dict.fromkeys(row.defense for row in panel.rows):
            group = [leaks[row.key] for row in panel.rows if row.defense == defense]
            worst = _strongest(group)
            if worst is not None:
                most = "the attack" if len(group) == 1 else f"the strongest of {len(group)} attacks,"
                comma = "" if len(group) == 1 else ","
                text = f"{_place(worst.row, real)}under {defense}, {most} {_sentence(worst, after=comma)}"
                sentences.append(text[0].upper() + text[1:])
    return sentences


def _recorded(real: Sequence[LeakRow]) -> list[str]:
    """Sentences on recorded clients: results compared with the truth, and results without one."""
    sentences = []
    for leak in (leak for leak in real if leak.row.recorded):
        row, untold = leak.row, len(leak.row.done) - len(leak.row.told)
        said = _sentence(leak) if row.told else f"{row.attack} {_found(row)}"
        if untold and row.told:
            said += f" The truth of {untold} more is not known, and no rate counts them."
        sentences.append(f"{row.data}: {said}")
    return sentences


def _found(row: Row) -> str:
    """A sentence on clients whose truth is unknown: what was found, and what certificates claim."""
    listed = sum(map(explained, row.done))
    kinds = [(unit.record["certificate"] or {}).get("status") for unit in row.done]
    return (
        f"found graphs with the gradient of {listed} of {len(row.done)} private graphs. Of {kinds.count('unique')} a "
        f"certificate says that no other graph explains the update, of {kinds.count('k_graphs')} which graphs do. The "
        "truth is not known, and so no rate is: certificates hold without it, under their conditions."
    )


def _place(row: Row, leaks: Sequence[LeakRow]) -> str:
    """Data and model, where the audit has several of them, and how clients send, where the grid names it."""
    several = len({(leak.row.data, leak.row.model) for leak in leaks}) > 1
    words = [row.data, row.model] if several else []
    if row.undefended and row.defense != "none":
        words.append(row.defense)
    return f"{', '.join(words)}: " if words else ""


def _sentence(leak: LeakRow, after: str = "") -> str:
    row = leak.row
    text = f"{row.attack}{after} {_rebuilt(row)} ({_interval(leak)})."
    alone = [u.record for u in row.told if (u.record["certificate"] or {}).get("status") == "unique"]
    right, wrong = sum(bool(r["truth_in_set"]) for r in alone), row.wrong
    listed = sum(bool(u.record["truth_in_set"]) and not u.record["exact"] for u in row.done)
    if listed:
        text += f" For {listed} more, the true graph is among those it lists."
    if right:
        sizes = {record["certificate"]["n_max"] for record in alone}
        known = all(record["certificate"]["n_known"] for record in alone)
        most = "of its known size" if known else "within its bound on nodes"
        if len(sizes) == 1:
            most = f"of {sizes.pop()} nodes" if known else f"of up to {sizes.pop()} nodes"
        text += (
            f" For {right}, a certificate says that no other graph {most} explains the update, under its conditions."
        )
    if wrong:
        sets = counted(wrong, "complete set")
        text += f" {sets}, by certificate, without the client's graph: a condition did not hold."
    if not _hits(row):
        text += f" Its best graphs reach a GSM-2 of {_mean(leak.estimates['GSM-2']):.2f} on average (1 is perfect)."
    return text


def _interval(leak: LeakRow) -> str:
    estimate = leak.estimates["exact"]
    if estimate is None:
        return "no rate"
    return f"rate {estimate.mean:.2f}, 95 % interval {estimate.low:.2f} to {estimate.high:.2f}"


def _guessing(rows: Sequence[Row]) -> list[str]:
    trivial = list(dict.fromkeys(row.attack for row in rows if row.trivial and row.done))
    if not trivial:
        known = ", ".join(BASELINES)
        return [f"No trivial baseline was run ({known}): part of a GSM or an AUC may be guesswork."]
    sentences = []
    for one in comparisons(rows):
        compared, names = len(one.better) + len(one.others), ", ".join(sorted(one.names))
        if one.alone:
            where = "; ".join(_where(row, rows) for row in one.alone)
            sentences.append(
                f"No trivial baseline was told what {one.attack} is told, so that nothing is said of: {where}."
            )
        if one.few:
            where = "; ".join(_where(row, rows) for row in one.few)
            sentences.append(
                f"Fewer than {FEWEST} clients are too few to say whether {one.attack} is better than the trivial "
                f"baselines: {where}."
            )
        other = "other " if one.few or one.alone else ""
        if compared and not one.better:
            sentences.append(
                f"{one.attack} was in none of {counted(compared, f'{other}row')} clearly better by every measure of "
                f"likeness than the trivial baselines ({names}), which do not read the update; by some it may be."
            )
        elif one.others:
            where = "; ".join(_where(row, rows) for row in one.others)
            sentences.append(
                f"{one.attack} was better than the trivial baselines ({names}) by every measure of likeness, but not "
                f"clearly here: {where}."
            )
        elif compared:
            sentences.append(
                f"{one.attack} was better than the trivial baselines ({names}) by every measure of likeness, "
                f"{'in every other row' if other else 'wherever both were run'}."
            )
    return sentences


def _where(row: Row, rows: Sequence[Row]) -> str:
    several = len({(one.data, one.model) for one in rows}) > 1
    return f"{row.data}, {row.model}, {row.under}" if several else row.under


def _coverage(audit: Audit) -> list[str]:
    counts = {status: sum(u.status == status for u in audit.units) for status in ("done", "failed", "skipped")}
    left = audit.planned - len(audit.units)
    sentences = [f"{counts['done']} of {audit.planned} planned attacks on single graphs ended."]
    if counts["failed"]:
        sentences.append(f"{counts['failed']} broke down.")
    if counts["skipped"]:
        were = "was" if counts["skipped"] == 1 else "were"
        sentences.append(f"{counts['skipped']} {were} skipped: the attack cannot work there.")
    if left > 0:
        sentences.append(f"Not in the store: {left}; the audit is running or was stopped, and rates may change.")
    if counts["failed"] or counts["skipped"]:
        sentences.append(UNFINISHED)
    return [" ".join(sentences)]


def _limits(audit: Audit, real: Sequence[LeakRow]) -> list[str]:
    sentences = [NO_EVIDENCE]
    records = [unit.record for leak in real for unit in leak.row.done]
    timed = sum(ended_by_time(record["stop"], record["info"].get("reason")) for record in records)
    if timed:
        sentences.append(f"The time limit ended {timed} of {len(records)} searches.")
    if any(not leak.row.undefended and not leak.row.recorded for leak in real):
        sentences.append("A defence that stops the attacks run here may fall to one that is made for it.")
    simulated = [unit for unit in audit.units if unit.specification.get("recorded") is None]
    if any(not unit.specification["train"] for unit in simulated):
        sentences.append("Models with random parameters stand for the first round; later rounds may leak otherwise.")
    few = [leak for leak in real if 0 < (leak.estimates["exact"] or Estimate(0, 0, 0, 0, 0)).clients < FEW]
    if few:
        sentences.append(f"{len(few)} of {len(real)} rows have fewer than {FEW} clients: too few for a rate.")
    batches = [unit for unit in simulated if unit.specification["batch_size"] > 1]
    if len({unit.cell["seed"] for unit in batches}) > 1:
        sentences.append("Batches of different seeds may share graphs; intervals take these batches as independent.")
    if simulated or not audit.units:
        sentences.append("Clients are simulated from data sets; how like them your own clients are, only you can say.")
    if len(simulated) < len(audit.units):
        sentences.append("Recorded files are believed: one that says wrongly how its client trained misleads attacks.")
    return sentences
