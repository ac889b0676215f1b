"""What ``jgleak invert`` prints for one file, and for several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jgleak.attacks.facts.fact import Facts
    from jgleak.audit.inversion import Inverted


def show_facts(shown: Facts, console: Console) -> None:
    """Print the facts, which are certain before the search begins."""
    if shown.found:
        console.print("what the update shows by itself:")
    for fact in shown.found.values():
        console.print(Text(f"  {fact.line}"), soft_wrap=True)


def show(one: Inverted, console: Console, verbose: bool) -> None:
    """Print the answer for one file."""
    from jgleak.audit.compilations import lost_to_compilation
    from jgleak.audit.outcome import ended_by_time

    seconds, compiling = one.seconds
    late = ended_by_time(one.found.stop, one.found.info.get("reason"))
    lost = lost_to_compilation(seconds, compiling) if late else None
    if lost is not None and not one.found.graphs and compiling > seconds / 2:  # no search to speak of took place
        _show_nothing(one, console, lost)
        return
    console.print(f"{seconds:.1f} s, of which {compiling:.1f} s compiling")
    if one.found.graphs:
        _show_found(one, console, verbose)
    else:
        _show_nothing(one, console, one.found.info.get("reason"))
    if lost is not None:
        console.print(Text(lost), soft_wrap=True)
    if one.beside is not None and one.found.graphs:
        console.print(Text(f"beside the truth: {_truth(one.beside._asdict())}"), soft_wrap=True)


def _show_nothing(one: Inverted, console: Console, cause: str | None) -> None:
    console.print(Text(f"nothing found ({one.found.stop}){f': {cause}' if cause else ''}"), soft_wrap=True)
    _show_notes(one, console)
    for sentence in one.why:
        console.print(Text(f"because {sentence}"), soft_wrap=True)
    for hint in one.worth.hints:
        console.print(Text(hint), soft_wrap=True)
    console.print("that is no evidence of safety: another attack, or the next round, may find the graph")


def _show_notes(one: Inverted, console: Console) -> None:
    for note in one.found.info.get("notes", ()):
        console.print(Text(note), soft_wrap=True)


def _show_found(one: Inverted, console: Console, verbose: bool) -> None:
    from jgleak.attacks.attack import LATE
    from jgleak.audit.outcome import PART
    from jgleak.audit.table import certificate_text, graph_table, member_text, members_conditions
    from jgleak.plural import counted

    found, worth = one.found, one.worth
    reason = found.info.get("reason")
    if worth.text:
        console.print(Text(worth.text), soft_wrap=True)
    for place, (graph, molecule) in enumerate(zip(one.shown, one.molecules, strict=True)):
        console.print(graph_table(graph, one.space))
        if found.members:
            console.print(Text(member_text(found.members[place])), soft_wrap=True)
        if molecule is not None and (not worth.text or found.members):
            fits = f"SMILES {molecule.texts[0]}\n  {molecule.note}"
            unread = f"\n  {molecule.note}" if molecule.unread_columns else ""
            none = f"no SMILES: no bond orders fit these atoms{unread}"
            console.print(Text(fits if molecule.inferred or molecule.known else none), soft_wrap=True)
    distance = "unknown" if found.gradient_distance is None else f"{found.gradient_distance:.1e}"
    count = "1 candidate graph" if len(found.graphs) == 1 else f"{len(found.graphs)} candidate graphs, the best shown"
    if found.members or len(one.shown) > 1:
        many = counted(len(found.graphs), "graph")
        count = (
            f"{many} of the batch"
            if worth.kind == PART
            else f"the graphs of the batch ({len(found.graphs)}), in no order"
        )
    stopped = "" if reason in LATE else f"; stopped: {found.stop}"  # the reason names the time limit already
    console.print(Text(f"gradient distance {distance}; {count}{stopped}"))
    for hint in worth.hints:
        console.print(Text(hint), soft_wrap=True)
    if reason:
        console.print(Text(reason), soft_wrap=True)
    _show_notes(one, console)
    if found.certificate is not None:
        console.print(
            Text(certificate_text(found.certificate, batch=bool(found.members), verbose=verbose)), soft_wrap=True
        )
    elif (conditions := members_conditions(found.members, verbose=verbose)) is not None:
        console.print(Text(conditions), soft_wrap=True)


def line(record: Mapping[str, Any]) -> str:
    """One of several files on one line."""
    certificate = record["certificate"]
    words = {
        "unique": "certified unique",
        "k_graphs": "certified, {} graphs",
        "at_least_k": "{} graphs or more" if certificate and certificate["size"] > 1 else "{} graph or more",
    }
    said = "no certificate" if certificate is None else words[certificate["status"]].format(certificate["size"])
    alone = [(one["certificate"] or {}).get("status") for one in record["members"]].count("unique")
    if certificate is None and alone:
        said = f"{alone} of {record['batch_size']} certified unique by themselves"
    outcome = record["outcome"] if record["graphs"] else f"nothing ({record['stop']})"
    truth = "" if record["exact"] is None or not record["graphs"] else f"; {_truth(record)}"
    return f"{record['file']}: {outcome}; {said}{truth}; {record['seconds']:.1f} s"


def _truth(beside: Mapping[str, Any]) -> str:
    label = {None: "", True: ", the label too", False: ", but the label is wrong"}[beside["label"]]
    if beside["exact"]:
        return f"exact{label}"
    return "the truth is listed, but not first" if beside["truth_in_set"] else f"not exact (GSM-2 {beside['gsm2']:.2f})"


def summary_line(summary: Mapping[str, int]) -> str:
    """Counts over several files."""
    truths = summary["truths"]
    beside = f"; of {truths} with a truth {summary['exact']} exact, {summary['truth_in_set']} listed" if truths else ""
    untold = f"; {summary['without_truth']} without a truth" if summary["without_truth"] else ""
    wrong = f", {summary['wrong']} with a complete set that lacks it" if summary["wrong"] else ""
    lost = f"; {summary['failed']} failed" if summary["failed"] else ""
    return (
        f"{summary['files']} files: {summary['found']} found, {summary['unique']} certified unique, "
        f"{summary['listed']} with a certificate{beside}{wrong}{untold}{lost}"
    )
