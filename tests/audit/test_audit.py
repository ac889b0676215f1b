"""Audits: what the store holds, what goes on after a break, and that a kill costs nothing and repeats nothing."""

from __future__ import annotations

import dataclasses
import gzip
import importlib.util
import json
import random
import re
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from benchmarks.studies.audit_resume import contents, differences, killed
from jgleak.attacks.attack import OUT_OF_TIME, Attack, Reconstruction
from jgleak.attacks.registry import ATTACKS
from jgleak.audit import shared, units
from jgleak.audit.certified import read
from jgleak.audit.compilations import Compiled
from jgleak.audit.conduct import unfinished
from jgleak.audit.grid import Cell, read_grid
from jgleak.audit.plan import Planned, longest, plan, timed
from jgleak.audit.results import Unit, open_audit
from jgleak.audit.specification import Specification
from jgleak.audit.table import audit_compilation_line
from jgleak.audit.units import Outcome, attempt, unit_hash
from jgleak.cli import app
from jgleak.datasets import load as load_dataset
from jgleak.federated import load
from jgleak.version import __version__

ROOT = Path(__file__).parents[2]
DATA = """
name = "small"
[[data]]
graphs = 3
max_nodes = 7
[[model]]
hidden = 8
"""
GRID = (
    DATA
    + """
[[attack]]
attack = "random"
know = ["n"]
[[attack]]
attack = "mean-adjacency"
know = ["n", "auxiliary"]
[[defense]]
[[defense]]
defense = "gaussian:0.1"
"""
)
CENSUS = '[[attack]]\nattack = "census"\nknow = ["n"]\nprior = "molecule"\n'


def audit(tmp_path: Path, text: str, *options: str, out: str = "out") -> Result:
    file = tmp_path / "grid.toml"
    file.write_text(text)
    return CliRunner().invoke(app, ["audit", str(file), "--out", str(tmp_path / out), *options])


def done(tmp_path: Path, text: str, *options: str, status: int = 0, out: str = "out") -> list[Unit]:
    result = audit(tmp_path, text, *options, out=out)
    assert result.exit_code == status, result.output
    return open_audit(tmp_path / out).units


def error(result: Result) -> str:
    """The line of a user's mistake."""
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in result.stderr
    return lines[0]


@pytest.mark.long
def test_the_store_holds_every_unit_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done(tmp_path, GRID + "name = 'noise'\n")
    found = open_audit(tmp_path / "out")
    assert (found.name, found.planned, len(found.units), found.grid_text) == (
        "small",
        12,
        12,
        GRID + "name = 'noise'\n",
    )
    private = load_dataset("embedded", graphs=3, max_nodes=7).graphs
    for position, unit in enumerate(found.units):
        assert unit.client == position % 3 and (unit.status, unit.reason) == ("done", None)
        assert unit.hash == unit_hash(Specification.from_json(unit.specification), unit.client)
        assert unit.cell["defense"] == ("none" if position < 6 else "noise")
        assert unit.versions["jgleak"] == __version__ and unit.device == "cpu" and unit.seconds > 0
        assert unit.record["attack"] == unit.cell["attack"] and unit.record["graph"] == unit.client
        truth = json.loads((tmp_path / "out" / "truths" / f"{unit.hash}.json").read_text())
        np.testing.assert_array_equal(truth["x"], private[unit.client].x)
        np.testing.assert_array_equal(truth["edges"], private[unit.client].edges)
        assert (truth["y"], truth["name"]) == (private[unit.client].y, private[unit.client].name)
        graphs, _, place, *_ = read(tmp_path / "out" / "reconstructions" / f"{unit.hash}.json")
        assert len(graphs) == 1 and place.resolve() == (tmp_path / "out" / "observations" / f"{unit.hash}.safetensors")
        assert load(place)[0].model.layers[0].features == 8
    with closing(sqlite3.connect(tmp_path / "out" / "audit.sqlite", isolation_level=None)) as store:
        assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store.execute("SELECT engine FROM starts").fetchall() == [("local",)]
        counts, unique, failed = (store.execute(query).fetchall() for query in _documented("sql")[0].split(";")[:3])
    assert [row[:3] for row in counts] == [
        (attack, defense, 3) for attack in ("mean-adjacency", "random") for defense in ("noise", "none")
    ]
    assert unique == failed == []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").rename("leak")
    for code in _documented("python"):
        exec(compile(code, "docs/auditing.md", "exec"), {})
    assert capsys.readouterr().out == "small 12 of 12\n"


def _documented(language: str) -> list[str]:
    """Blocks of docs/auditing.md."""
    text = (ROOT / "docs" / "auditing.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_documented_grids_can_run() -> None:
    example = (ROOT / "docs" / "examples" / "audit.toml").read_text(encoding="utf-8")
    for text, count in ((example, 54), (_documented("toml")[0], 160)):
        planned = plan(read_grid(text))
        assert sum(p.graphs for p in planned) == count and not any(p.impossible for p in planned)


def test_batches_share_an_observation_and_have_a_unit_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fragile(monkeypatch, {})
    found = done(tmp_path, DATA + '[[attack]]\nattack = "fragile"\n[[defense]]\nbatch_size = 2\n')
    assert [unit.client for unit in found] == [0, 1, 2] and {unit.status for unit in found} == {"done"}
    places = [read(tmp_path / "out" / "reconstructions" / f"{unit.hash}.json")[2].stem for unit in found]
    assert places == [found[0].hash, found[0].hash, found[2].hash]
    assert len(list((tmp_path / "out" / "observations").iterdir())) == 2
    assert [unit.record["batch_size"] for unit in found] == [2, 2, 1]


def test_a_second_audit_needs_resume_and_the_same_grid(tmp_path: Path) -> None:
    first = done(tmp_path, GRID)
    assert "exists already; add --resume" in error(audit(tmp_path, GRID))
    changed = audit(tmp_path, GRID.replace("hidden = 8", "hidden = 9"), "--resume")
    assert "was begun with another grid: model[0].hidden is 8 there and 9 here" in error(changed)
    assert "seeds is only here" in error(audit(tmp_path, "seeds = [0]\n" + GRID, "--resume"))
    assert "defense has 2 entries there and 3 here" in error(
        audit(tmp_path, GRID + "[[defense]]\nbatch_size = 2\nname = '2'\n", "--resume")
    )
    assert done(tmp_path, "# a comment is no change\n" + GRID, "--resume") == first, "nothing is done twice"
    with closing(sqlite3.connect(tmp_path / "out" / "audit.lock", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "another process audits in" in error(audit(tmp_path, GRID, "--resume"))


def _own_data(folder: Path, entry: str, *molecules: str) -> str:
    """A grid of one cell on molecules of one's own, which are written."""
    rows = "\n".join(f"{smiles},1,0" for smiles in molecules)
    (folder / "clintox.csv.gz").write_bytes(gzip.compress(f"smiles,FDA_APPROVED,CT_TOX\n{rows}\n".encode()))
    data = f'[[data]]\ndataset = "clintox"\npath = "{folder}"\n{entry}\n'
    return data + '[[attack]]\nattack = "random"\nknow = ["n"]\n[[model]]\nhidden = 8\n'


def test_other_data_than_the_audit_was_begun_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_prepared", shared._prepared.__wrapped__)  # data are read again, as by a new process
    text = _own_data(tmp_path, "max_nodes = 3", "CCO", "CCN", "CCC")
    assert len(done(tmp_path, text)) == 3
    with closing(sqlite3.connect(tmp_path / "out" / "audit.sqlite", isolation_level=None)) as store:
        store.execute("DELETE FROM units WHERE client = 2")
    kept = open_audit(tmp_path / "out").units
    _own_data(tmp_path, "", "CCO", "CCN")
    assert "with other data (attack[0], defense[0], model[0], data[0]: 3 clients' graphs there and 2 here)" in error(
        audit(tmp_path, text, "--resume")
    )
    _own_data(tmp_path, "", "CCO", "CCN", "CCCl")
    assert "data[0]: not the same graphs); bring them back" in error(audit(tmp_path, text, "--resume"))
    _own_data(tmp_path, "", "CCO", "CCN", "CCC", "CCCCCCCC")
    assert "not the same graphs" in error(audit(tmp_path, text, "--resume")), "no client, but of the public statistics"
    assert open_audit(tmp_path / "out").units == kept
    _own_data(tmp_path, "", "CCO", "CCN", "CCC")
    assert [unit.client for unit in done(tmp_path, text, "--resume")] == [0, 1, 2]
    with closing(sqlite3.connect(tmp_path / "out" / "audit.sqlite", isolation_level=None)) as store:
        store.execute("UPDATE grid SET format = 'jgleak audit 1'")
    assert "an audit of the format 'jgleak audit 1', this jgleak writes" in error(audit(tmp_path, text, "--resume"))


def test_data_that_change_while_an_audit_runs() -> None:
    specification = Specification(attack="random", know=("n",), graphs=3, max_nodes=7, hidden=8)
    before = shared.shared_digest(specification)
    assert [outcome.status for outcome in attempt(specification, range(3), 3, before)] == ["done"] * 3
    found = attempt(specification, range(4), 4, "another")
    assert [(o.status, o.files) for o in found] == [("failed", {})] * 4
    assert all("the data have changed" in (outcome.reason or "") for outcome in found)


def test_too_few_graphs_to_train_on_show_before_anything_runs(tmp_path: Path) -> None:
    text = _own_data(tmp_path, "graphs = 3", *("C" * size for size in range(2, 10)))
    text += "[[model]]\nname = 'trained'\nhidden = 8\ntrain = 1\n"
    message = error(audit(tmp_path, text))
    assert message.startswith("error: attack[0], defense[0], model[1], data[0]: train: 5 public graphs are too few")
    assert "take fewer clients" in message
    assert not (tmp_path / "out").exists()


def test_folders_that_are_no_audit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "holds no audit, but something else" in error(audit(tmp_path, GRID, "--resume", out="file"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("text")
    assert "holds no audit, but something else" in error(audit(tmp_path, GRID, "--resume", out="notes"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "audit.sqlite").write_text("no store" * 200)
    assert "cannot write to" in error(audit(tmp_path, GRID, "--resume", out="broken"))
    with pytest.raises(ValueError, match="holds no audit.sqlite"):
        open_audit(tmp_path / "notes")
    with pytest.raises(ValueError, match="is not a readable store"):
        open_audit(tmp_path / "broken")


def test_mistakes_leave_no_folder(tmp_path: Path) -> None:
    result = audit(tmp_path, GRID.replace("gaussian:0.1", "gauss:1").replace("hidden = 8", "hidden = 0"))
    assert result.exit_code == 2
    assert [line.split(":")[2].strip() for line in result.stderr.splitlines()] == [
        "model[0].hidden",
        "defense[1].defense",
    ]
    assert not (tmp_path / "out").exists()
    assert "unknown 'slurm'" in error(audit(tmp_path, GRID, "--engine", "slurm"))
    assert "from 1, got 0" in error(audit(tmp_path, GRID, "--workers", "0"))
    missing = CliRunner().invoke(app, ["audit", str(tmp_path / "no.toml"), "--out", str(tmp_path / "out")])
    assert "no.toml" in error(missing)
    assert "--out" in error(CliRunner().invoke(app, ["audit", str(tmp_path / "grid.toml")]))


def test_a_time_limit_is_a_clients_not_a_graphs() -> None:
    specification = Specification(dataset="embedded", attack="empty", batch_size=3, time_limit=20.0, know=("n",))
    planned = (Planned(Cell({}, specification, "data[0]"), 12, ""),)
    assert longest(planned, {0: 12}) == 80.0 and longest(planned, {0: 10}) == 80.0 and longest(planned, {0: 3}) == 20.0


@pytest.mark.parametrize(("spent", "seconds"), [(5.0, 20.0), (50.0, 80.0)])
def test_no_client_is_expected_to_take_longer_than_its_limit(
    spent: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though compilation may: it counts once for a client that is timed."""
    specification = Specification(dataset="embedded", attack="empty", batch_size=3, time_limit=20.0, know=("n",))
    label = {"data": "embedded", "model": "gcn", "attack": "empty"}
    planned, clock = (Planned(Cell(label, specification, "data[0]"), 12, ""),), iter([0.0, spent])
    monkeypatch.setattr("jgleak.audit.plan.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("jgleak.audit.plan.attempt", lambda *_: [SimpleNamespace(record={})] * 3)
    assert timed(planned, {0: 12}) == pytest.approx(seconds) and longest(planned, {0: 12}) == 80.0


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    result = audit(tmp_path, "time_limit = 30\n" + GRID, "--dry-run")
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    assert "12 units in 4 cells: 12 to run, 0 impossible, 0 in the store" in words
    assert "6.0 min if every attack uses up its time limit; up to 4 times that" in words and "about " in words
    assert not (tmp_path / "out").exists()
    done(tmp_path, GRID)
    assert "0 to run, 0 impossible, 12 in the store" in " ".join(audit(tmp_path, GRID, "--dry-run").stdout.split())


def _fragile(monkeypatch: pytest.MonkeyPatch, faults: dict[int, BaseException]) -> list[int]:
    """An attack that raises at some of its calls; the numbers of the calls so far."""
    calls: list[int] = []

    def run(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        calls.append(len(calls))
        if calls[-1] in faults:
            raise faults[calls[-1]]
        return Reconstruction((), None, "done")

    monkeypatch.setitem(ATTACKS, "fragile", Attack("fragile", run, several=True))
    return calls


FRAGILE = GRID + '[[attack]]\nattack = "fragile"\n'


def test_failures_are_recorded_and_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _fragile(monkeypatch, {1: RuntimeError("no memory left")})
    found = done(tmp_path, FRAGILE, status=1)
    assert len(found) == 18 and len(calls) == 6
    (broken,) = [unit for unit in found if unit.status == "failed"]
    assert (broken.cell["attack"], broken.client, broken.record["stop"]) == ("fragile", 1, "error")
    assert broken.reason is not None and "RuntimeError: no memory left" in broken.reason
    assert done(tmp_path, FRAGILE, "--resume", status=1) == found and len(calls) == 6
    assert "add --resume" in error(audit(tmp_path, FRAGILE, "--retry-failed"))
    mended = done(tmp_path, FRAGILE, "--resume", "--retry-failed")
    assert len(calls) == 7 and {unit.status for unit in mended} == {"done"}
    assert [unit for unit in mended if unit in found] == [unit for unit in found if unit != broken]


def test_a_setup_that_fails_costs_its_cells_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = units.shared_setup

    def diverges(specification: Specification) -> Any:
        if specification.defense:
            raise ValueError("training diverged")
        return setup(specification)

    monkeypatch.setattr(units, "shared_setup", diverges)
    found = done(tmp_path, GRID, status=1)
    assert [unit.status for unit in found] == ["done"] * 6 + ["failed"] * 6
    assert all("training diverged" in (unit.reason or "") and unit.record == {} for unit in found[6:])


def test_a_defect_beside_the_attack_costs_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    specification = Specification(attack="random", know=("n",), graphs=3, max_nodes=7, hidden=8)
    whole = units.run_chunk

    def refuses(specification: Specification, setup: Any, firsts: Sequence[int]) -> Any:
        if 1 in firsts:
            raise ValueError("not this one")
        return whole(specification, setup, firsts)

    monkeypatch.setattr(units, "run_chunk", refuses)
    found = attempt(specification, range(3), 3, None)
    assert [(o.client, o.status) for o in found] == [(0, "done"), (1, "failed"), (2, "done")]


@pytest.mark.parametrize(
    ("stop", "reason", "shares", "calls"),
    [
        ("time", None, (0.3, 0.2), 2),
        ("match", OUT_OF_TIME, (0.3, 0.3, 0.0), 3),
        ("time", None, (0.9,) * 5, 1 + units.AGAIN),
        ("time", None, (0.2,), 1),
        ("match", None, (0.9,), 1),
    ],
)
def test_an_attack_that_compilation_cut_short_runs_again(
    stop: str, reason: str | None, shares: tuple[float, ...], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = Specification(attack="random", know=("n",), graphs=2, max_nodes=7, hidden=8)
    whole, called = units.run_chunk, list[Sequence[int]]()

    def cold(specification: Specification, setup: Any, firsts: Sequence[int]) -> Any:
        called.append(firsts)
        for place, result in enumerate(whole(specification, setup, firsts)):
            compiled = Compiled(int(place == 0), 10.0 * shares[len(called) - 1])
            found = dataclasses.replace(result.reconstruction, stop=stop, info={"reason": reason, "call": len(called)})
            yield dataclasses.replace(result, reconstruction=found, seconds=10.0, compiled=compiled)

    monkeypatch.setattr(units, "run_chunk", cold)
    records = [outcome.record for outcome in attempt(specification, range(2), 2, None)]
    assert len(called) == calls and [record["info"]["call"] for record in records] == [calls] * 2
    assert [record["seconds_discarded"] for record in records] == [10.0 * (calls - 1)] * 2
    said = audit_compilation_line(records) or ""
    if shares[calls - 1]:
        assert said.startswith(f"compilation took {20 * shares[calls - 1]:.1f} s of 20.0 s")
    assert ("; 2 attacks ran again" in said) == (calls > 1)
    assert (f"the {20.0 * (calls - 1):.1f} s of earlier runs count nowhere" in said) == (calls > 1)
    assert ("2 attacks still ended early for it" in said) == (calls == 1 + units.AGAIN)


def test_ctrl_c_leaves_what_is_done_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _fragile(monkeypatch, {1: KeyboardInterrupt()})
    first = done(tmp_path, FRAGILE, status=130)
    assert len(first) == 7
    found = done(tmp_path, FRAGILE, "--resume")
    assert len(found) == 18 and [unit for unit in found if unit in first] == first
    assert len(calls) == 7, "the interrupted client is the only one that is attacked again"


def test_impossible_cells_are_in_the_store(tmp_path: Path) -> None:
    found = done(tmp_path, "skip_impossible = true\n" + GRID + '[[attack]]\nattack = "dlg"\n')
    skipped = [unit for unit in found if unit.status == "skipped"]
    assert len(found) == 18 and len(skipped) == 6
    assert {unit.cell["attack"] for unit in skipped} == {"dlg"}
    assert all("it needs the number of nodes" in (unit.reason or "") for unit in skipped)


def _killed_and_resumed(tmp_path: Path, text: str, kills: int, seed: int) -> None:
    file, rng = tmp_path / "grid.toml", random.Random(seed)
    whole = done(tmp_path, text, out="whole")
    assert not any(unit.record["stop"] == "time" for unit in whole)
    aims = sorted(rng.sample(range(len(whole)), kills))
    for aim in aims:
        _, after = killed(file, tmp_path / "broken", aim, rng.uniform(0.0, 0.3))
        assert after >= min(aim, 1)
    done(tmp_path, text, "--resume", out="broken")
    assert not differences(contents(tmp_path / "whole"), contents(tmp_path / "broken"))
    assert not list((tmp_path / "broken").rglob("*.part"))


@pytest.mark.long
def test_killed_and_resumed_it_is_the_unbroken_audit(tmp_path: Path) -> None:
    _killed_and_resumed(tmp_path, GRID, kills=1, seed=0)


@pytest.mark.slow
def test_killed_five_times_and_resumed_it_is_the_unbroken_audit(tmp_path: Path) -> None:
    matching = '[[attack]]\nattack = "dlg"\nknow = ["n"]\noptions = {steps = 5, optimiser = "adam"}\ntogether = 2\n'
    wide = GRID.replace("hidden = 8", "hidden = 32")
    _killed_and_resumed(tmp_path, "time_limit = 600\n" + wide + CENSUS + matching, kills=5, seed=1)


def test_without_ray_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert 'pip install "jgleak[ray]"' in error(audit(tmp_path, GRID, "--engine", "ray"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason='needs Ray: pip install "jgleak[ray]"')
def test_two_ray_workers_do_the_same(tmp_path: Path) -> None:
    alone = done(tmp_path, GRID, out="alone")
    together = done(tmp_path, GRID, "--engine", "ray", "--workers", "2", out="ray")
    assert [(u.hash, u.status, u.record["gsm2"]) for u in alone] == [
        (u.hash, u.status, u.record["gsm2"]) for u in together
    ]
    assert not differences(contents(tmp_path / "alone"), contents(tmp_path / "ray"))


def test_a_chunk_that_runs_again_leaves_finished_units_alone() -> None:
    """One of three has failed and its chunk is retried: what went wrong this time does not replace the others."""
    specification = Specification(attack="dlg", know=("n",), graphs=3)
    again = [Outcome(i, "failed", "no memory", {}, "cpu", {}, 0.0, {}) for i in range(3)]
    finished = {unit_hash(specification, 0): "done", unit_hash(specification, 2): "done"}
    kept = unfinished(Cell({}, specification, "attack[0]"), again, finished)
    assert [outcome.client for outcome in kept] == [1]
