"""The model card and the data sheet: what they say follows from the store alone."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from jgleak.audit.report.cards import DIGITS, UNCOVERED, Card, cards
from jgleak.audit.report.render import render_html, render_markdown
from jgleak.audit.report.rows import rows
from jgleak.audit.results import Unit
from jgleak.datasets import names
from jgleak.names.datasets import origin
from jgleak.version import __version__, code_digest

from .made import audit, unit

PLACE = {"file": "/a/one.safetensors", "truth": None, "features": None, "noise": None}


def recorded(client: int, **record: Any) -> Unit:
    """A unit of a client that ran."""
    made = unit(client, data="ours", model="as recorded", defense="as recorded")
    cell = made.cell | {"file": f"{client}.safetensors"}
    specification = made.specification | {"recorded": PLACE, "defense": ""}
    return made._replace(cell=cell, specification=specification, record=made.record | record)


def found(*units: Unit) -> tuple[list[Card], list[Card]]:
    store = audit(*units)._replace(digests={"molecules": "a" * 64})
    made = cards(store, rows(store), "Not tried: dlg.")
    assert made.uncovered == ["Not tried: dlg.", *UNCOVERED]
    assert made.code["Grid"] == hashlib.sha256(store.grid_text.encode()).hexdigest()[:DIGITS]
    assert made.to_json()["models"] == [one._asdict() for one in made.models]
    return made.models, made.data


def test_simulated_clients() -> None:
    models, data = found(*(unit(i, entries=[300, 21], loss="bce") for i in range(3)), unit(0, attack="dlg"))
    (model,), (sheet,) = models, data
    assert (model.title, sheet.title) == ("gcn", "molecules")
    assert model.facts["Parameters"] == "321" and model.facts["Loss"] == "bce"
    assert "GCN of 2 layers, width 300" in model.facts["Architecture"] and "random" in model.facts["Weights"]
    assert sheet.facts["Private graphs"] == "3 known", "the graph that two attacks share is one"
    assert sheet.facts["Nodes of a graph"] == "10 to 14, 12 in the median" and sheet.facts["Digest"] == "a" * DIGITS
    assert sheet.facts["Source"] == origin("embedded") and "Observation files" not in sheet.facts


def test_clients_that_ran() -> None:
    absent = dict.fromkeys(("exact", "truth_in_set", "guess_rate", "gsm0", "gsm1", "gsm2", "n_nodes", "edges"))
    (model,), (sheet,) = found(recorded(0, model="GINConv 64"), recorded(1, model="GINConv 64", **absent))
    assert model.facts["Architecture"] == "GINConv 64" and model.facts["Weights"] == "those that the server sent"
    assert (sheet.facts["Observation files"], sheet.facts["Private graphs"]) == ("2", "1 known")
    assert sheet.facts["Nodes of a graph"] == "10 to 10, 10 in the median" and "Data set" not in sheet.facts
    (_,), (nobody,) = found(recorded(1, **absent))
    assert nobody.facts["Private graphs"] == "none known" and "Nodes of a graph" not in nobody.facts


def test_the_card_is_on_the_page_in_both_formats() -> None:
    store = audit(unit(0))
    page, text = render_html(store), render_markdown(store)
    assert '<section id="card">' in page and 'href="#card"' in page
    for said in ("What was audited", "Model: gcn", "Data: molecules", "Not covered"):
        assert said in page and said in text


@pytest.mark.parametrize("name", [*names(), "tu:MUTAG"])
def test_every_data_set_has_an_origin(name: str) -> None:
    assert origin(name)


def test_the_code_has_one_digest() -> None:
    assert len(code_digest()) == DIGITS and code_digest() == code_digest() and __version__
