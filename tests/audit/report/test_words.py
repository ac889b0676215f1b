"""The summary says what the numbers say, and never more."""

from __future__ import annotations

import pytest

from jgleak.attacks.attack import OUT_OF_TIME
from jgleak.audit.report.rows import panels, rows
from jgleak.audit.report.summary import FEW, NO_EVIDENCE, UNFINISHED, Summary, summary
from jgleak.audit.report.tables import leaks, shown
from jgleak.audit.report.threat import assumptions
from jgleak.audit.results import Audit

from .made import audit, certificate, grid, unit


def _summary(one: Audit) -> Summary:
    return summary(one, leaks(rows(one)))


def _section(one: Audit, title: str) -> str:
    return " ".join(s for section in _summary(one).sections if section.title == title for s in section.sentences)


def test_counts_and_interval_of_a_strong_attack() -> None:
    units = [unit(i, exact=i != 3, certificate=certificate() if i < 15 and i != 3 else None) for i in range(20)]
    words = _summary(audit(*units))
    assert words.headline.startswith("Without a defence") and "19 of 20 private graphs" in words.headline
    text = _section(audit(*units), "Without a defence")
    assert "census rebuilt 19 of 20 private graphs exactly (rate 0.95, 95 % interval 0.75 to 1.00)" in text
    assert "For 14, a certificate says that no other graph of up to 40 nodes explains the update" in text
    assert "For 1 more, the true graph is among those it lists" in text


@pytest.mark.parametrize(("bounds", "says"), [((12,), "of 12 nodes"), ((12, 13), "of its known size")])
def test_where_the_size_was_known_the_claim_is_of_that_size(bounds: tuple[int, ...], says: str) -> None:
    known = [certificate() | {"n_known": True, "n_max": bounds[i % len(bounds)]} for i in range(4)]
    text = _section(audit(*(unit(i, certificate=one) for i, one in enumerate(known))), "Without a defence")
    assert f"For 4, a certificate says that no other graph {says} explains the update" in text


def test_where_all_clients_agree_the_interval_has_a_width() -> None:
    """No hit in 20 leaves up to 1 - 0.025 ** (1 / 20) = 0.17."""
    none = _section(audit(*(unit(i, exact=False, truth_in_set=False) for i in range(20))), "Without a defence")
    assert "rebuilt none of 20" in none and "95 % interval 0.00 to 0.17" in none
    all_of_them = _section(audit(*(unit(i) for i in range(20))), "Without a defence")
    assert "rebuilt 20 of 20" in all_of_them and "95 % interval 0.83 to 1.00" in all_of_them


def test_nothing_rebuilt_is_no_evidence_of_safety() -> None:
    words = _summary(audit(unit(0, exact=False, truth_in_set=False)))
    assert "no evidence of safety" in words.headline
    assert any(NO_EVIDENCE in section.sentences for section in words.sections)
    assert "GSM-2 of 1.00" in _section(audit(unit(0, exact=False)), "Without a defence")


def test_a_wrong_unique_certificate_is_said_aloud() -> None:
    text = _section(audit(unit(0, exact=False, truth_in_set=False, certificate=certificate())), "Without a defence")
    assert "1 complete set, by certificate, without the client's graph" in text
    several = audit(unit(0, certificate=certificate("k_graphs", 38), exact=False, truth_in_set=False))
    assert "1 complete set, by certificate" in _section(several, "Without a defence")
    cut = audit(unit(0, certificate=certificate("at_least_k", 2), exact=False, truth_in_set=False))
    assert "complete set" not in _section(cut, "Without a defence")
    assert "no other graph" not in text


def test_of_each_defence_the_worst_case_counts() -> None:
    weak = [unit(i, attack="dlg", defense="prune:0.9", exact=False, truth_in_set=False) for i in range(4)]
    strong = [unit(i, defense="prune:0.9", exact=i < 2) for i in range(4)]
    text = _section(audit(*weak, *strong), "With a defence")
    assert text.startswith("Under prune:0.9, the strongest of 2 attacks, census, rebuilt 2 of 4")
    assert "dlg" not in text
    assert _summary(audit(*weak, *strong)).headline.startswith("Under prune:0.9")


def test_several_seeds_count_attacks_and_graphs() -> None:
    text = _section(
        audit(*(unit(i, seed=str(s), exact=s == 0) for s in range(2) for i in range(3))), "Without a defence"
    )
    assert "rebuilt the private graph exactly in 3 of 6 attacks on 3 private graphs (rate 0.50" in text


def test_an_attack_that_only_guesses_is_told() -> None:
    text = _section(grid(), "Beside guessing")
    assert "dlg was in none of 2 rows clearly better by every measure of likeness" in text
    assert "census was better than the trivial baselines (random) by every measure of likeness, but not clearly" in text
    assert "here: clip:1+gaussian:0.1" in text
    told = [one._replace(specification=one.specification | {"know": ["n"]}) for one in map(unit, range(4))]
    lone = _section(audit(*told, *(unit(i, attack="random") for i in range(4))), "Beside guessing")
    assert "No trivial baseline was told what census is told" in lone
    assert "No trivial baseline was run" in _section(audit(unit(0)), "Beside guessing")


def test_missing_failed_and_skipped_are_counted() -> None:
    text = _section(grid(), "What was run")
    assert text.startswith("72 of 78 planned") and "1 broke down" in text and "1 was skipped" in text
    assert "Not in the store: 4" in text and UNFINISHED in text
    assert UNFINISHED not in _section(audit(unit(0)), "What was run")


def test_few_clients_and_untrained_models_are_caveats() -> None:
    assert f"fewer than {FEW} clients" in _section(audit(unit(0)), "How far this goes")
    many = _section(audit(*(unit(i) for i in range(FEW))), "How far this goes")
    assert "fewer than" not in many and "random parameters" in many


def test_the_threat_model_is_part_of_the_summary() -> None:
    """What the server sees, and which attack is told more than the others."""
    told = unit(0, attack="dlg")
    told = told._replace(specification=told.specification | {"know": ["n"]})
    text = _section(audit(unit(0), told), "Under which assumptions")
    assert "sees the gradient over one graph of one client" in text
    assert "dlg also knows the number of nodes of each client's graph." in text and "census also" not in text


def test_a_search_that_ran_out_of_time_is_counted() -> None:
    cut = unit(2, info={"reason": OUT_OF_TIME})  # after it had found graphs
    said = _section(audit(unit(0, stop="time"), unit(1), cut), "How far this goes")
    assert "The time limit ended 2 of 3 searches" in said


def test_nothing_ended() -> None:
    for one in (audit(), audit(unit(0, status="failed", reason="no")), audit(planned=8)):
        assert "nothing to report" in _summary(one).headline


def test_facts_are_said_once_and_of_whom_they_hold() -> None:
    """Facts of all rows stand apart, those of an attack or a defence with it, others with their row."""
    cells = [(attack, defense) for attack in ("census", "dlg") for defense in ("none", "prune:0.9")]
    units = [unit(0, attack=attack, defense=defense) for attack, defense in cells]
    changes = ({"know": ["n"]} if attack == "dlg" else {} for attack, _ in cells)
    units = [one._replace(specification=one.specification | change) for one, change in zip(units, changes, strict=True)]
    units[0] = units[0]._replace(specification=units[0].specification | {"time_limit": 5.0})
    one = assumptions(panels(rows(audit(*units)))[0])
    own = dict(one.own)
    assert one.shared["The server sees"].startswith("the gradient over one graph")
    assert own["dlg"]["The attacker knows"].endswith("number of nodes of each client's graph")
    assert own["no defence"] == {"Defence": "none"} and own["prune:0.9"]["Defence"].startswith("prune:0.9")
    limits = {name: facts["Time limit"] for name, facts in own.items() if "Time limit" in facts}
    assert limits["census, no defence"] == "5 s for each client" and len(limits) == 4
    assert not set(one.shared) & {title for facts in own.values() for title in facts}


def test_shares_of_facts_are_of_those_without_a_condition() -> None:
    sure, doubted = {"value": 1, "exact_under": ["one gradient"]}, {"value": 1, "exact_under": [], "condition": "so"}
    clients = ({"label": sure, "nodes": doubted}, {"label": doubted}, {"label": sure}, {"label": sure})
    (found,) = shown(rows(audit(*(unit(number, facts=facts) for number, facts in enumerate(clients)))))
    assert (found.clients, found.shares["label"], found.shares["nodes"], found.shares["units"]) == (4, 0.75, 0.0, 0.0)


def test_conditions_say_how_many_rest_on_them() -> None:
    ((row, conditions),) = assumptions(panels(rows(grid()))[0]).conditions
    assert row.attack == "census" and conditions == ["the graph is connected (12 of 12)"]
