"""Every number of a report is a recomputation from the records, by the same intervals as everywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from jgleak.audit.report import tables
from jgleak.audit.report.baselines import FEWEST, comparisons
from jgleak.audit.report.render import render_html
from jgleak.audit.report.rows import clients, estimate, graphs, panels, rows
from jgleak.audit.report.tables import EXACT, MEASURES, SETS, STATUSES, by_seed, by_size, leaks, sets
from jgleak.metrics import bootstrap, rate

from .made import audit, certificate, grid, unit


def test_one_seed_is_the_plain_interval_over_clients() -> None:
    """With one seed, every estimate is ``rate`` or ``bootstrap`` of the records' own column."""
    hits, distances = [True, False, True, True], [1e-7, 2e-3, 5e-6, 0.0]
    given = zip(hits, distances, strict=True)
    found = rows(audit(*(unit(i, exact=hit, gradient_distance=d) for i, (hit, d) in enumerate(given))))
    (leak,) = leaks(found)
    wanted = rate([float(hit) for hit in hits])
    assert leak.estimates["exact"] == (wanted.mean, wanted.low, wanted.high, 4, 4)
    distance = leak.estimates["gradient distance"]
    spread = bootstrap(distances)
    assert distance == (pytest.approx(np.mean(distances)), spread.low, spread.high, 4, 4)


def test_every_measure_of_a_large_grid() -> None:
    """Means over clients equal means over records where every seed drew the same clients."""
    for leak in leaks(rows(grid())):
        for measure in MEASURES:
            column = [measure.value(one) for one in leak.row.done]
            one = leak.estimates[measure.name]
            assert (one is None) == (not column)
            if one is not None:
                assert one.mean == pytest.approx(np.mean([float(v) for v in column if v is not None]))
                assert one.low <= one.mean <= one.high and one.clients == 6


def test_seeds_on_one_graph_are_no_new_clients() -> None:
    """Ten seeds that repeat the same two clients leave the interval of two clients."""
    few = rows(audit(unit(0, gsm2=0.0), unit(1, gsm2=1.0)))[0]
    many = rows(audit(*(unit(i, gsm2=float(i), seed=str(s)) for s in range(10) for i in range(2))))[0]
    value = next(m.value for m in MEASURES if m.name == "GSM-2")
    assert estimate(many.done, value, rate=True) == estimate(few.done, value, rate=True)
    assert {seed: one and one.mean for seed, one in by_seed(many).items()} == {str(s): 1.0 for s in range(10)}


def test_names_that_repeat_identify_nobody() -> None:
    """Two clients of the same name within one seed stay two, in each seed."""
    units = [unit(i, name="", seed=str(s)) for s in range(2) for i in range(3)]
    assert len(clients(units)) == 6
    assert len(clients([unit(i, seed=str(s)) for s in range(2) for i in range(3)])) == 3


def test_the_graphs_of_an_update_are_one_client() -> None:
    """Three updates of four graphs have the interval of three clients, whatever is said of a graph."""
    units = [unit(i, exact=i < 4, batch_size=4) for i in range(12)]
    one = estimate(units, EXACT.value, rate=True)
    wanted = rate([1.0, 0.0, 0.0])
    assert one == (wanted.mean, pytest.approx(wanted.low), pytest.approx(wanted.high), 3, 12)
    assert [len(group) for group in clients(units)] == [4, 4, 4] and len(graphs(units)) == 12
    assert len(clients([unit(i, batch_size=2) for i in range(4)])) == 2
    again = [unit(i, exact=i < 4, batch_size=4, seed="1") for i in range(12)]
    assert len(clients(units + again)) == 6 and len(graphs(units + again)) == 12
    named = [one._replace(cell=one.cell | {"file": f"{one.client // 4}.safetensors"}) for one in units + again]
    assert len(clients(named)) == 3, "an observation file is the same update under all seeds"
    (shown,) = tables.shown(rows(audit(*(unit(i, batch_size=4, facts={"label": {}}) for i in range(12)))))
    assert shown.clients == 3 and shown.shares["label"] == 1.0


def test_a_mean_over_some_graphs_of_every_update_says_over_how_many() -> None:
    units = [
        unit(i, batch_size=4, edges=None if i % 4 else {"file_order": {"auc": 0.5}, "aligned": {"auc": None}})
        for i in range(12)
    ]
    found = leaks(rows(audit(*units)))[0].estimates["edge AUC, file order"]
    assert found is not None and (found.clients, found.graphs) == (3, 3)
    page = render_html(audit(*units), None)
    assert "<br>3 graphs</small>" in page and "<br>12 graphs</small>" not in page


def test_seconds_are_of_a_client_and_no_bound_of_an_error_is_negative() -> None:
    """Each graph of a batch has an equal share of its client's time."""
    units = [unit(i, batch_size=2, seconds=1.0 + i // 2, gradient_distance=1e-3 * (i // 2)) for i in range(4)]
    units = [one._replace(record=one.record | {"batch_size": 2}) for one in units]
    found = leaks(rows(audit(*units)))[0].estimates
    assert found["seconds a client"] is not None and found["seconds a client"].mean == 3.0
    assert found["gradient distance"] is not None and found["gradient distance"].low == 0.0


def test_undefined_values_are_left_out_and_counted() -> None:
    found = rows(audit(unit(0), unit(1, edges=None, gradient_distance=None), unit(2, auc=None)))
    estimates = leaks(found)[0].estimates
    counts = {name: one.clients for name, one in estimates.items() if one is not None}
    assert counts["exact"] == 3 and counts["gradient distance"] == 2
    assert counts["edge AUC, file order"] == 2 and counts["edge AUC, aligned"] == 1


def test_failures_and_skips_are_in_no_rate() -> None:
    """A failure is no evidence: the rate is that of the attacks that ended."""
    found = rows(audit(unit(0), unit(1, status="failed", reason="no"), unit(2, status="skipped", reason="no")))
    (leak,) = leaks(found)
    assert (leak.done, leak.failed, leak.skipped) == (1, 1, 1)
    assert leak.estimates["exact"] == (1.0, pytest.approx(0.025), 1.0, 1, 1)
    (bare,) = leaks(rows(audit(unit(0, status="failed", reason="no"))))
    assert set(bare.estimates.values()) == {None}


def test_sizes_split_the_clients() -> None:
    """Size classes are disjoint and their weighted mean is the row's."""
    row = rows(audit(*(unit(i, n_nodes=n, exact=n < 20) for i, n in enumerate((5, 15, 16, 25, 26, 80)))))[0]
    classes = by_size(row, EXACT)
    assert {name: one and (one.mean, one.clients) for name, one in classes.items()} == {
        "<=15": (1.0, 2),
        "16-25": (0.5, 2),
        ">=26": (0.0, 2),
    }


def test_sets_count_every_certificate_once() -> None:
    listed = [("unique", 1), ("unique", 1), ("k_graphs", 2), ("k_graphs", 5), ("at_least_k", 100), ("at_least_k", 101)]
    units = [unit(i, certificate=certificate(*one), truth_in_set=i != 1) for i, one in enumerate(listed)]
    (found,) = sets(rows(audit(*units, unit(9), unit(10, attack="dlg"))))
    assert sum(found.counts[status][name] for status in STATUSES for name, _, _ in SETS) == len(listed)
    assert found.counts["unique"]["1"] == 2 and found.counts["k_graphs"] == {
        **dict.fromkeys(found.counts["unique"], 0)
    } | {
        "2": 1,
        "3-5": 1,
    }
    assert found.counts["at_least_k"]["11-100"] == found.counts["at_least_k"][">100"] == 1
    assert (found.bare, found.wrong) == (1, 1)


def test_rows_and_panels_keep_the_order_of_the_grid() -> None:
    units = [unit(0, model=model, attack=attack) for model in ("b", "a") for attack in ("dlg", "census")]
    found = panels(rows(audit(*units)))
    assert [(p.model, [r.attack for r in p.rows]) for p in found] == [
        ("b", ["dlg", "census"]),
        ("a", ["dlg", "census"]),
    ]


def test_beating_a_baseline_is_paired_by_client() -> None:
    """A small gain on every client is clear; the same mean with mixed signs is not; nor is a tie, nor a gain in one
    measure of three."""

    def likeness(i: int, gain: float, only: bool = False) -> dict[str, Any]:
        return {name: 0.1 + 0.1 * i + gain * (name == "gsm2" or not only) for name in ("gsm0", "gsm1", "gsm2")}

    base = [unit(i, attack="random", exact=False, **likeness(i, 0.0)) for i in range(8)]
    gains = {"steady": [0.01] * 8, "mixed": [0.5, -0.48] * 4, "tied": [0.0] * 8, "one": [0.01] * 8}
    units = [
        unit(i, attack=name, kind="dlg", exact=False, **likeness(i, gain, only=name == "one"))
        for name, column in gains.items()
        for i, gain in enumerate(column)
    ]
    outcome = {one.attack: bool(one.better) for one in comparisons(rows(audit(*base, *units)))}
    assert outcome == {"steady": True, "mixed": False, "tied": False, "one": False}


@pytest.mark.parametrize(("number", "better"), [(5, False), (6, True)])
def test_five_clients_may_all_be_higher_by_chance(number: int, better: bool) -> None:
    base = [unit(i, attack="random", gsm0=0.1, gsm1=0.1, gsm2=0.1) for i in range(number)]
    (one,) = comparisons(rows(audit(*base, *map(unit, range(number)))))
    assert bool(one.better) == better and bool(one.few) != better and not one.others
    said = f"Fewer than {FEWEST} clients are too few to say whether census is better"
    assert (said in render_html(audit(*base, *map(unit, range(number))))) != better


def test_a_comparison_counts_the_clients_that_both_attacked() -> None:
    """A baseline on one of eight clients shows nothing, and what others show is said of the other rows."""
    base = [unit(0, attack="random", gsm0=0.1, gsm1=0.1, gsm2=0.1)]
    ours = [unit(i) for i in range(8)]
    (one,) = comparisons(rows(audit(*base, *ours)))
    assert one.few and not one.better and not one.names
    more = [unit(i, attack="empty", defense="prune:0.9", gsm0=0.1, gsm1=0.1, gsm2=0.1) for i in range(8)]
    defended = [unit(i, defense="prune:0.9") for i in range(8)]
    page = " ".join(render_html(audit(*base, *more, *ours, *defended)).split())
    assert "baselines (empty) by every measure of likeness, in every other row." in page


def test_a_second_seed_that_finds_nothing_leaves_the_interval_of_as_many_clients() -> None:
    """Yes and no stay a binomial rate where seeds differ: ten clients, of 20 attacks one."""
    units = [unit(i, exact=i + seed == 0, seed=str(seed)) for seed in range(2) for i in range(10)]
    found = estimate(units, EXACT.value, rate=True)
    assert found is not None and (found.mean, found.clients) == (0.05, 10)
    assert (found.low, found.high) == pytest.approx((stats.beta.ppf(0.025, 0.5, 10.5), stats.beta.ppf(0.975, 1.5, 9.5)))
    half = estimate([unit(i, exact=not s, seed=str(s)) for s in range(2) for i in range(5)], EXACT.value, rate=True)
    assert half is not None and half.low < 0.1 and half.high > 0.9


def test_batches_of_several_seeds_are_said_to_be_taken_as_independent() -> None:
    seeds = [unit(i, batch_size=2, seed=str(seed)) for seed in range(2) for i in range(4)]
    said = "Batches of different seeds may share graphs"
    assert said in render_html(audit(*seeds)) and said not in render_html(audit(*seeds[:4]))


def test_a_baseline_that_is_told_less_is_no_comparison_and_nor_is_an_attack_that_found_nothing() -> None:
    base = [unit(i, attack="random", gsm0=0.1, gsm1=0.1, gsm2=0.1) for i in range(8)]
    told = [one._replace(specification=one.specification | {"know": ["n"]}) for one in map(unit, range(8))]
    (one,) = comparisons(rows(audit(*base, *told)))
    assert one.alone and not one.better and not one.others
    as_much = [one._replace(specification=one.specification | {"know": ["n", "labels"]}) for one in base]
    (one,) = comparisons(rows(audit(*as_much, *told)))
    assert one.better and not one.alone
    given = [unit(i, attack="random", gsm0=1.0, gsm1=0.3, gsm2=0.1) for i in range(8)]
    (one,) = comparisons(rows(audit(*given, *map(unit, range(8)))))
    assert one.better, "where features are told, GSM-0 is 1 for both"
    nothing = [unit(i, exact=False, gsm0=0.0, gsm1=0.0, gsm2=0.0) for i in range(8)]
    assert comparisons(rows(audit(*base, *nothing))) == []


def test_another_graph_at_the_same_place_is_no_pair() -> None:
    """Auxiliaries may change which graphs are clients; then nothing is compared client by client."""
    base = [unit(i, attack="random", name=f"other {i}", gsm2=0.1) for i in range(8)]
    (one,) = comparisons(rows(audit(*base, *(unit(i, attack="dlg", gsm2=0.9) for i in range(8)))))
    assert not one.better


def test_a_baseline_under_another_defence_is_no_comparison() -> None:
    assert comparisons(rows(audit(unit(0), unit(0, attack="random", defense="prune:0.9")))) == []
