"""The words for how often attacks succeed, beside the record that they stand for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jgleak import Clients, check, standard
from jgleak.datasets import MOLECULE_SPACE
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.recorded import NONE, OTHER, RECORDED, SHARES, SINGLE, how_often, row_of
from jgleak.exposure.text import exposure_text
from jgleak.features import FeatureSpace, binary
from jgleak.federated import LocalTraining

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RECORD, STEPS = RESULTS / "what_leaks.md", RESULTS / "local_steps.jsonl"
ROW = re.compile(r"\| (?P<row>[^|]+) \| `(?P<attack>[^`]+)` \| (?P<number>\d+), \d+ \| (?P<exact>[\d.]+) \[")
MODEL = standard(MOLECULE_SPACE.width)


def word(share: float) -> str:
    return next(name for name, least in SHARES.items() if share >= least)


def test_words_are_the_records() -> None:
    found = [
        match.groupdict() for line in RECORD.read_text(encoding="utf-8").splitlines() if (match := ROW.match(line))
    ]
    assert {one["number"] for one in found} == {"40"}
    measured: dict[str, dict[str, str]] = {}
    for one in found:
        if one["attack"] != "random":
            measured.setdefault(one["row"], {})[one["attack"]] = word(float(one["exact"]) / 100.0)
    assert measured == RECORDED


@pytest.mark.parametrize(
    ("clients", "row"),
    [
        (Clients(), "the gradient of one graph"),
        (Clients(batch_size=8), "the mean gradient of 8 graphs"),
        (Clients(batch_size=9), None),
        (Clients(local=LocalTraining(0.01, 5)), "weights after 5 steps of .01 on one graph"),
        (Clients(local=LocalTraining(0.01, 5), batch_size=2), None),
        (Clients(local=LocalTraining(0.01, 5, optimiser="adam")), None),
        (Clients(defense="prune:0.9"), "one graph, a tenth of the entries sent"),
        (Clients(defense="gaussian:0.001"), "one graph, Gaussian noise of .001"),
    ],
)
def test_rows_are_of_the_clients_kind(clients: Clients, row: str | None) -> None:
    assert row_of(Deployment(MODEL, MOLECULE_SPACE, clients)) == row


def test_words_of_rounded_weights_are_the_records() -> None:
    records = [json.loads(line) for line in STEPS.read_text(encoding="utf-8").splitlines()]
    found = {record["row"]: record for record in records}
    rows = {"one step of .01": "grain-1-0.01-float32", "five steps of .003": "grain-5-0.003-float32"}
    assert {steps: word(found[row]["exact"]["mean"]) for steps, row in rows.items()} == SINGLE
    assert {found[row]["graphs"] for row in rows.values()} == {50}


@pytest.mark.parametrize(("noise", "rounded"), [(None, True), (1e-6, False)])
def test_clients_that_return_weights_round_them(noise: float | None, rounded: bool) -> None:
    clients = Clients(local=LocalTraining(0.01, 5), noise=noise, whence="as the file says" if noise else "")
    said = how_often(Deployment(MODEL, MOLECULE_SPACE, clients), ["census"])
    assert ("returned in 32 bits, of 50: after one step of .01 most" in said) is rounded
    assert "32 bits" not in how_often(Deployment(MODEL, MOLECULE_SPACE), ["census"])


def test_attacks_without_a_record_have_none() -> None:
    one = Deployment(MODEL, MOLECULE_SPACE)
    assert how_often(one, ["grain", "fedgig"]) == NONE
    assert "rebuilt exactly: census all, dlg few (README" in how_often(one, ["census", "grain", "dlg"])


def test_networks_of_words_have_no_record_of_molecules() -> None:
    words = FeatureSpace(tuple(binary(f"word_{k}") for k in range(8)))
    for clients in (Clients(), Clients(batch_size=8)):
        assert how_often(Deployment(standard(words.width), words, clients), ["census", "dlg"]) == OTHER


def test_the_text_says_what_it_assumes() -> None:
    said = " ".join(exposure_text(check(MODEL, MOLECULE_SPACE), "model").split())
    assert "1 graph of 20 nodes (assumed: a usual molecule; --nodes sets it) behind an update" in said
    assert "raw (not normalised)" in said and "How often they succeed: of 40 Tox21 molecules" in said
    said = exposure_text(check(MODEL, MOLECULE_SPACE, Clients(nodes=9)), "model")
    assert "1 graph of 9 nodes behind an update" in said
