"""Grids: the product of their tables, and every mistake named at its place, all of them together."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.audit.entries import AXES
from jgleak.audit.grid import read_grid
from jgleak.audit.plan import plan
from jgleak.audit.round import client, refusal
from jgleak.audit.setup import prepare
from jgleak.audit.shared import shared_setup
from jgleak.audit.specification import Faults, Specification

DATA = "[[data]]\ngraphs = 3\nmax_nodes = 8\n"
SMALL = DATA + "[[model]]\nhidden = 8\n"
EMPTY = '[[attack]]\nattack = "empty"\n'


def test_the_product_with_its_labels() -> None:
    grid = read_grid(
        'name = "all"\nseeds = [3, 1]\ntime_limit = 5\n' + SMALL + "[[data]]\nname = 'more'\ngraphs = 4\n" + EMPTY
        + '[[attack]]\nattack = "dlg"\nknow = ["n"]\noptions = {steps = 30, lr = 0.5}\ntime_limit = 2\n'
        + '[[defense]]\n[[defense]]\ndefense = "clip:1"\nbatch_size = 2\n'
    )  # fmt: skip
    assert grid.name == "all" and len(grid.cells) == 2 * 1 * 2 * 2 * 2
    assert len({cell.specification for cell in grid.cells}) == 16
    first, last = grid.cells[0], grid.cells[-1]
    assert first.label == {"data": "embedded", "model": "gcn", "attack": "empty", "defense": "none", "seed": "3"}
    assert last.label == {"data": "more", "model": "gcn", "attack": "dlg", "defense": "clip:1", "seed": "1"}
    assert last.place == "attack[1], defense[1], model[0], data[1]"
    assert first.specification == Specification(attack="empty", graphs=3, max_nodes=8, hidden=8, seed=3, time_limit=5.0)
    assert last.specification == Specification(
        attack="dlg", graphs=4, hidden=8, seed=1, time_limit=2.0, know=("n",), batch_size=2, defense="clip:1",
        options=(("steps", "30"), ("lr", "0.5")),
    )  # fmt: skip
    assert [cell.label["attack"] for cell in grid.cells[:4]] == ["empty", "dlg"] * 2, "attacks share a setup"


def test_every_field_has_a_table() -> None:
    placed = [field for fields in AXES.values() for field in fields]
    assert sorted([*placed, "seed", "recorded"]) == sorted(field.name for field in dataclasses.fields(Specification))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[data]\n" + EMPTY, "not TOML: "),
        (DATA, "attack: at least one [[attack]] table is needed"),
        (EMPTY, "data: at least one [[data]] or [[observation]] table is needed"),
        ("[data]\n" + EMPTY, "data: at least one [[data]] or [[observation]] table is needed"),
        ("sedes = [1]\n" + DATA + EMPTY, "sedes: unknown; a grid has name, seeds"),
        ("seeds = 3\n" + DATA + EMPTY, "seeds: expected a list of whole numbers"),
        ("seeds = []\n" + DATA + EMPTY, "seeds: expected a list of whole numbers"),
        ("seeds = [0, -1]\n" + DATA + EMPTY, "seeds: expected a list of whole numbers"),
        ("seeds = [true]\n" + DATA + EMPTY, "seeds: expected a list of whole numbers"),
        ("seeds = [1, 1]\n" + DATA + EMPTY, "seeds: every seed once"),
        ("time_limit = 0\n" + DATA + EMPTY, "time_limit: expected a positive number of seconds, got 0"),
        ("time_limit = inf\n" + DATA + EMPTY, "time_limit: expected a positive number of seconds, got inf"),
        ('time_limit = "1 h"\n' + DATA + EMPTY, "time_limit: expected a positive number of seconds, got '1 h'"),
        ("name = 3\n" + DATA + EMPTY, "name: expected some text, got 3"),
        ("skip_impossible = 1\n" + DATA + EMPTY, "skip_impossible: expected true or false, got 1"),
        ("[[data]]\nmax_node = 8\n" + EMPTY, "data[0].max_node: unknown; did you mean 'max_nodes'? a [[data]] table"),
        ("[[data]]\nhidden = 8\n" + EMPTY, "data[0].hidden: belongs into a [[model]] table"),
        ('[[data]]\ngraphs = "ten"\n' + EMPTY, "data[0].graphs: expected a whole number, got 'ten'"),
        ("[[data]]\ngraphs = true\n" + EMPTY, "data[0].graphs: expected a whole number, got True"),
        ("[[data]]\ngraphs = 0\n" + EMPTY, "data[0].graphs: must be at least 1, got 0"),
        ("[[data]]\nmin_nodes = 9\nmax_nodes = 8\n" + EMPTY, "data[0].min_nodes, max_nodes: expected 1 <="),
        ('[[data]]\ndataset = "tox22"\n' + EMPTY, "data[0].dataset: no data set 'tox22'; did you mean 'tox21'?"),
        ('[[data]]\ndataset = "tox21"\ntask = "SR"\n' + EMPTY, "data[0].task: tox21 has no task 'SR'; choose one of"),
        ('[[data]]\ntask = "x"\n' + EMPTY, "data[0].task: embedded has no task 'x'; it has only one, leave task out"),
        ("[[data]]\nname = ''\n" + EMPTY, "data[0].name: expected some text, got ''"),
        ('[[model]]\nmodel = "gcnn"\n' + DATA + EMPTY, "model[0].model: unknown 'gcnn'; did you mean 'gcn'?"),
        ('[[model]]\nreadout = "mean"\n' + DATA + EMPTY, "model[0].readout: unknown 'mean'; choose one of node_mlp"),
        ('[[model]]\nactivation = "rely"\n' + DATA + EMPTY, "model[0].activation: unknown 'rely'; did you mean"),
        ('[[model]]\nloss = "l1"\n' + DATA + EMPTY, "model[0].loss: unknown 'l1'; choose one of bce, ce, mse, m"),
        ("[[model]]\nhidden = 0\n" + DATA + EMPTY, "model[0].hidden: must be at least 1, got 0"),
        ("[[model]]\nlayers = 2.5\n" + DATA + EMPTY, "model[0].layers: expected a whole number, got 2.5"),
        ("[[model]]\ntrain = -1\n" + DATA + EMPTY, "model[0].train: must be a number of epochs, 0 or more, got -1"),
        (DATA + "[[attack]]\nknow = ['n']\n", "attack[0].attack: missing; name one of `jgleak list`"),
        (DATA + '[[attack]]\nattack = "randm"\n', "attack[0].attack: unknown 'randm'; did you mean 'random'?"),
        (DATA + EMPTY + "know = ['truth']\n", "attack[0].know: unknown 'truth'; choose from n, adjacency"),
        (DATA + EMPTY + "know = 'n'\n", "attack[0].know: expected a list of words, as [\"n\"], got 'n'"),
        (DATA + EMPTY + "max_n = 0\n", "attack[0].max_n: must be at least 1, got 0"),
        (DATA + EMPTY + "time_limit = inf\n", "attack[0].time_limit: must be a positive number of seconds, got inf"),
        (DATA + EMPTY + "options = {a = 1}\n", "attack[0].options.a: this attack has no options"),
        (DATA + EMPTY + "options = 3\n", "attack[0].options: expected a table of names and values"),
        (DATA + EMPTY + 'auxiliary = "split"\n', "attack[0].auxiliary: expected 'same', 'split:1.0'"),
        (DATA + EMPTY + "[[defense]]\ndefense = 'noise:1'\n", "defense[0].defense: unknown 'noise'; "),
        (DATA + EMPTY + "[[defense]]\ndefense = 'clip:-1'\n", "defense[0].defense: the strength of 'clip'"),
        (DATA + EMPTY + "[[defense]]\nprotocol = 'sgd'\n", "defense[0].protocol: unknown 'sgd'; choose one of fedsgd"),
        (DATA + EMPTY + "[[defense]]\nlocal_steps = 3\n", "defense[0].local_steps: only clients of the protocol"),
        (DATA + EMPTY + EMPTY, "attack[1].name: attack[0] is called 'empty' too; give each a name of its own"),
        (DATA + EMPTY + EMPTY + "name = 'again'\nprior = 'auto'\n", "attack[1], defense[0], model[0], data[0]: "),
        (
            DATA + EMPTY + 'auxiliary = "embedded"\n',
            "attack[0], defense[0], model[0], data[0]: auxiliary: that is the clients' own data set",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_named_at_its_place(text: str, fault: str) -> None:
    with pytest.raises(Faults) as caught:
        read_grid(text)
    assert len(caught.value.faults) == 1, caught.value.faults
    assert caught.value.faults[0].startswith(fault)


def test_all_mistakes_of_a_text_at_once() -> None:
    text = 'seeds = 1\nbogus = 2\n[[data]]\ngraphs = 0\nmax_nodes = 0\ndataset = "no"\n[[attack]]\nattack = "dlg"\n'
    text += (
        'options = {steps = 0, stepz = 3, lr = "fast"}\n[[defense]]\nbatch_size = 0\nprotocol = "x"\ndefense = "y"\n'
    )
    with pytest.raises(Faults) as caught:
        read_grid(text)
    places = [fault.split(":")[0] for fault in caught.value.faults]
    assert sorted(places) == sorted(
        ["seeds", "bogus", "data[0].graphs", "data[0].min_nodes, max_nodes", "data[0].dataset"]
        + ["attack[0].options.steps", "attack[0].options.stepz", "attack[0].options.lr"]
        + ["defense[0].batch_size", "defense[0].protocol", "defense[0].defense"]
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[[data]]\ndataset = "tox21"\npath = "/nowhere"\n' + EMPTY, "/nowhere"),
        ("[[data]]\ngraphs = 1000\n" + EMPTY, "graphs: embedded has 72 graphs"),
        ("[[data]]\nmax_nodes = 1\n" + EMPTY, "graphs: embedded has 0 graphs of 1..1 nodes"),
        (SMALL + 'loss = "mse"\n' + EMPTY, "loss: 'mse' does not fit embedded"),
        (SMALL + 'readout = "node_scores"\n' + EMPTY, "readout: 'node_scores' labels nodes"),
        (SMALL + '[[attack]]\nattack = "dlg"\n', "attack 'dlg' cannot run here: it needs the number of nodes"),
        (SMALL + '[[attack]]\nattack = "mean-adjacency"\nknow = ["n"]\n', "it averages public graphs"),
        (SMALL + '[[attack]]\nattack = "census"\nprior = "luck"\n', "prior 'luck' is unknown"),
        (SMALL + '[[attack]]\nattack = "grain"\n[[defense]]\nbatch_size = 2\n', "the update mixes 2 graphs"),
        (SMALL + '[[attack]]\nattack = "glg-node-2"\nknow = ["n"]\n', "attacks node classification (node_losses)"),
        (SMALL + '[[attack]]\nattack = "census"\n[[defense]]\nprotocol = "node_losses"\n', "attacks node"),
    ],
)  # fmt: skip
def test_what_data_and_models_have_to_say(text: str, fault: str) -> None:
    with pytest.raises(Faults) as caught:
        plan(read_grid(text))
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].startswith("attack[0], defense[0], model[0], data[0]: ")
    assert fault in caught.value.faults[0]


def test_embeddings_are_planned_where_the_data_are_raw_and_refused_where_they_are_not() -> None:
    """What one table says is needed may stand in another."""
    model = '[[model]]\nencoder = "embedding"\nhidden = 8\n'
    raw = plan(read_grid("[[data]]\ngraphs = 1\nmax_nodes = 8\nnormalise = false\n" + model + EMPTY))
    assert len(raw) == 1
    with pytest.raises(Faults, match="embeddings look raw values up"):
        plan(read_grid("[[data]]\ngraphs = 1\nmax_nodes = 8\n" + model + EMPTY))


def test_all_that_cannot_run_at_once_each_with_its_places() -> None:
    attacks = EMPTY + '[[attack]]\nattack = "dlg"\n'
    text = SMALL + "[[data]]\nname = 'many'\ngraphs = 1000\n" + attacks + "[[defense]]\n[[defense]]\ndefense = 'sign'\n"
    with pytest.raises(Faults) as caught:
        plan(read_grid(text))
    impossible, missing = caught.value.faults
    assert impossible.startswith(
        "attack[1], defense[0], model[0], data[0] (and 1 more such cells): attack 'dlg' cannot"
    )
    assert missing.startswith("attack[0], defense[0], model[0], data[1] (and 3 more such cells): graphs: ")


def test_impossible_cells_are_skipped_where_the_grid_says_so() -> None:
    planned = plan(read_grid("skip_impossible = true\n" + SMALL + EMPTY + '[[attack]]\nattack = "dlg"\n'))
    assert [p.graphs for p in planned] == [3, 3]
    assert planned[0].impossible is None and planned[1].impossible is not None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"know": ("n", "auxiliary"), "attack": "mean-adjacency"},
        {"know": ("auxiliary",), "auxiliary": "split:1"},
        {"auxiliary": "split:1", "seed": 5},
        {"attack": "dlg", "know": ("n",), "defense": "gaussian:0.1", "batch_size": 2, "time_limit": 3.0},
        {"node_task": True, "readout": "node_scores", "bias": True, "attack": "glg-node-2", "know": ("n",)},
    ],
)
def test_a_shared_setup_is_the_cells_own(fields: dict[str, Any]) -> None:
    specification = dataclasses.replace(Specification(attack="empty", graphs=2, hidden=8, max_nodes=8), **fields)
    own, shared = prepare(specification), shared_setup(specification)
    assert [g.name for g in own.dataset.graphs] == [g.name for g in shared.dataset.graphs]
    assert [g.name for g in own.public] == [g.name for g in shared.public]
    assert (own.model, own.loss, own.defense) == (shared.model, shared.loss, shared.defense)
    jax.tree.map(np.testing.assert_array_equal, own.params, shared.params)
    seen = client(specification, shared, 0)
    assert refusal(specification, shared) is None and seen.observation.protocol in ("fedsgd", "node_losses")


def test_none_is_a_word_of_grids_as_it_is_of_the_command_line() -> None:
    said = read_grid('[[data]]\n[[model]]\nnorm = "none"\nresidual = "none"\n[[attack]]\nattack = "empty"\n')
    silent = read_grid('[[data]]\n[[attack]]\nattack = "empty"\n')
    assert [cell.specification for cell in said.cells] == [cell.specification for cell in silent.cells]
