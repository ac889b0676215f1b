"""FedGNN's tables: every row can be run, and what was measured stands where it belongs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks.papers.fedgnn import page as fedgnn_page
from benchmarks.papers.fedgnn import records as fedgnn_records
from benchmarks.papers.fedgnn.rows import (
    CLIPPING,
    KINDS,
    LEAK,
    METHODS,
    RMSE,
    ROWS,
    SEEDS,
    TRAFFIC,
    Row,
    counted,
    defense,
    grid,
    repeated,
    watched,
)
from benchmarks.papers.fedgnn.traffic import traffic
from jgleak.audit.recommender.setup import prepare
from jgleak.audit.recommender.specification import RecommenderSpecification
from jgleak.audit.recommender.training import plans
from jgleak.audit.recommender.tuned import TUNED
from jgleak.defenses import parse
from jgleak.defenses.privacy import privacy
from jgleak.federated.recommender import Clients, NeighbourUsers, neighbour_users, observe


def _error(row: str, test: float, **privacy: Any) -> dict[str, Any]:
    about = {"device": "cpu", "version": "0", "specification": {"rounds": [1, 20]}}
    numbers = {
        "validation": 0.9,
        "test": test,
        "bias_test": 0.88,
        "epoch": 3,
        "epochs": 9,
        "clients_per_second": 1234.0,
    }
    return {
        "row": row,
        "attack": RMSE.name,
        **numbers,
        "clients_per_second": 1234.0,
        "privacy": privacy or None,
        **about,
    }


def _leak(title: str, rounds: int, auc: float) -> dict[str, Any]:
    means = {name: {"mean": auc, "low": auc, "high": auc} for name in ("auc", "precision_at_size", "rmse", "rmse_all")}
    guesses = {name: {"mean": 0.5, "low": 0.5, "high": 0.5} for name in means}
    return {"title": title, "rounds": rounds, "means": means, "guesses": guesses}


def test_rows_are_named_once_and_start_from_the_papers_defence() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) == 3 * (len(KINDS) + 8 + 9) + 6
    assert {row.experiment.dataset for row in ROWS} < set(TUNED)
    paper = next(row for row in ROWS if row.name == "douban-paper")
    assert (paper.printed, paper.experiment.pseudo, paper.experiment.settings) == (0.790, 1000, "paper")
    assert privacy(parse(defense(0.2)), [10]).per_coordinate == pytest.approx(1.0, abs=1e-3)  # as in the paper
    assert defense(0.0) == "clip-inf:0.1"
    assert [row.name for row in ROWS if watched(row)] == ["douban-gat-defended", "douban-gat"]
    assert grid()["clipped to 0.1, lambda = 0.2, M = 1,000"] == (0.2, 1000) and grid()["no defence"] == (None, 0)


def test_errors_stand_beside_the_papers() -> None:
    records = [_error("douban-fcf", 0.7845), _error("yahoo-music-fcf", 22.4), _error("douban-noise-0.4", 0.91)]
    fcf, noise = fedgnn_page.lines(ROWS, records)
    assert fcf == ("FCF", "-", "1.064", "0.784", "0.823", "22.40", "22.9")
    assert noise[0].endswith("lambda = 0.4, M = 1000") and noise[3] == "0.910"


def test_neighbours_stand_in_a_table_of_their_own_and_leave_the_curves_alone() -> None:
    row = next(row for row in ROWS if row.name == "douban-gcn-off")
    assert (row.experiment.neighbours, row.experiment.network, row.experiment.pseudo) == (0, "gcn", 0)
    records = [_error("douban-gcn-off", 0.7612), _error("douban-pseudo-0", 0.76)]
    assert [line[0] for line in fedgnn_page.lines(ROWS, records)] == ["Douban, tuned GAT, lambda = 0.2, M = 0"]
    assert fedgnn_page.curves(ROWS, records)["M"] == [(0.0, {"error": 0.76})]
    text = fedgnn_page.document(ROWS, records)
    assert "| Douban, GCN, neighbours off | 0.761 |" in text.partition("## Neighbours")[2]


def test_other_thresholds_stand_in_a_table_of_their_own_and_leave_the_curves_alone() -> None:
    found = {row.name: row.experiment.defense for row in ROWS if row.kind == CLIPPING}
    assert len(found) == 6 and found["douban-clip-0.05-noise-0.2"] == "clip-inf:0.05+laplace:0.2828"
    stated = [privacy(parse(found[f"douban-clip-{d:g}-noise-0.2"]), [10]).per_coordinate for d in (0.05, 0.2)]
    assert stated == pytest.approx([0.5, 2.0], abs=1e-3), "2 delta / lambda"
    records = [_error("douban-clip-0.2-noise-0.4", 0.7612)]
    assert fedgnn_page.lines(ROWS, records) == [] and not any(fedgnn_page.curves(ROWS, records).values())
    text = fedgnn_page.document(ROWS, records)
    assert "clipped to 0.2, lambda = 0.4, M = 1000 | 0.761 |" in text.partition("## Clipping")[2]


def test_a_constant_stands_first() -> None:
    records = [_error("douban-fcf", 0.7845), _error("flixster-fcf", 1.0)]
    records[0] |= {"mean_test": 0.91125, "specification": {"dataset": "douban"}}
    constant, fcf = fedgnn_page.lines(ROWS, records)
    assert constant == ("the mean of the training ratings", "-", "", "0.911", "", "-", "")
    assert fcf[0] == "FCF"


def test_the_page_has_errors_leaks_and_curves() -> None:
    leaks = [_leak("no defence", 1, 1.0), _leak("no defence", 20, 1.0)]
    leaks += [_leak("clipped to 0.1, lambda = 0.2, M = 1,000", rounds, 0.6) for rounds in (1, 20)]
    errors = [
        _error("douban-gat-defended", 0.83, per_coordinate=1.0, epsilon=2e5),
        _error("douban-pseudo-100", 0.8, per_coordinate=1.0, epsilon=None),
    ]
    about = {"device": "cpu", "version": "0", "specification": {"rounds": [1, 20]}}
    page = fedgnn_page.document(ROWS, [*errors, {"row": "douban-gat", "attack": LEAK.name, "leaks": leaks, **about}])
    assert "| `douban-gat-defended` | 0.9000 | 0.8300 | 0.8800 | 3 | 9 | 1,234 | cpu | 1 | 2e+05 |" in page
    assert "| 1 | none |" in page and "Not trained: `flixster-paper`" in page
    assert "| no defence | 1.000 (0.500) |" in page
    curves = fedgnn_page.curves(ROWS, [*errors, {"row": "douban-gat", "attack": LEAK.name, "leaks": leaks}])
    assert [strength for strength, _ in curves["lambda"]] == [0.2] and curves["lambda"][0][1]["error"] == 0.83
    assert [strength for strength, _ in curves["M"]] == [100.0, 1000.0] and "auc" not in curves["M"][0][1]


def test_measuring_a_row_says_what_is_absent_and_what_was_found(tmp_path: Path) -> None:
    silent = {"graphs": None, "time_limit": 1.0, "progress": lambda *_: None}
    gone = Row("x", "x", "ours", RecommenderSpecification(dataset="movielens-1m", path=str(tmp_path)))
    (absent,) = fedgnn_records.measure(gone, METHODS, **silent)
    assert "movielens-1m is not at" in absent["absent"]
    row = Row("made-up-bias", "made up", "ours", RecommenderSpecification(method="bias"))
    (found,) = fedgnn_records.measure(row, METHODS, **silent)
    assert found["attack"] == "rmse" and found["test"] == found["bias_test"] and found["curve"] == []
    assert list(fedgnn_records.measure(dataclasses.replace(row, name="other"), [LEAK], **silent)) == []


def test_ten_seeds_are_ten_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedgnn_records, "RUNS", 2)
    silent = {"graphs": None, "time_limit": 1.0, "progress": lambda *_: None}
    experiment = RecommenderSpecification(method="fedmf", epochs=2)
    row = Row("douban-fedmf", "made up", "Table 3", experiment, printed=0.8)
    first, both = fedgnn_records.measure(row, [SEEDS], **silent)
    (zero,) = fedgnn_records.measure(row, [RMSE], **silent)
    (one,) = fedgnn_records.measure(
        dataclasses.replace(row, experiment=dataclasses.replace(experiment, seed=1)), [RMSE], **silent
    )
    assert first["tests"] == [zero["test"]] and both["tests"] == [zero["test"], one["test"]]
    assert zero["test"] != one["test"] and both["means"]["RMSE"]["mean"] == np.mean(both["tests"])
    text = fedgnn_page.document(ROWS, [zero, both]).partition("## Ten seeds")[2]
    assert f"| FedMF | - | 1.059 | {np.mean(both['tests']):.3f} [" in text and "], 2 | 0.817 |" in text
    assert not repeated(next(row for row in ROWS if row.name == "douban-bias"))


@pytest.mark.parametrize(("expansion", "pseudo"), [("plain", 7), ("trainable", 0)])
def test_what_users_send_is_what_an_update_holds(expansion: str, pseudo: int) -> None:
    """Counted by hand in the update of the user who sends most; everything is float32."""
    specification = RecommenderSpecification(
        network="gcn", neighbours=2, expansion=expansion, epochs=1, defense="clip-inf:0.1", pseudo=pseudo
    )
    setup = prepare(specification)
    model, plan = plans(specification, setup)
    most = int(setup.rest.counts().argmax())
    near = neighbour_users(setup.rest, 2, np.random.default_rng(0))
    clients = Clients.from_ratings(setup.rest, near)
    params, key = model.initial(key=jax.random.key(0)), jax.random.key(1)
    ((sent,),) = observe(
        *(model, params, clients, [most]),
        key=key,
        protection=setup.protection,
        neighbours=NeighbourUsers(plan.neighbours),
    )
    arrays = [*jax.tree.leaves(sent.network), sent.user_gradient, sent.item_gradients, sent.neighbour_gradients]
    found = traffic(specification)
    assert sum(np.asarray(array).nbytes for array in arrays) == 4 * round(1000 * found["largest"])
    assert found["open"] <= found["means"]["thousand numbers"]["mean"] < found["all_items"]


def test_traffic_is_counted_without_training_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in ROWS if row.name == "douban-pseudo-500")
    assert counted(row) and not counted(next(row for row in ROWS if row.name == "douban-fcf"))
    small = dataclasses.replace(row, experiment=RecommenderSpecification(pseudo=5))
    monkeypatch.setattr(fedgnn_records, "learn", None)
    (record,) = fedgnn_records.measure(small, [TRAFFIC], graphs=None, time_limit=1, progress=lambda *_: None)
    page = fedgnn_page.document(ROWS, [record])
    assert f"| {row.title} | {record['width']} | {record['means']['thousand numbers']['mean']:,.1f} |" in page
