"""Audits of observation files: the same records as of simulated clients, less without the truth, and no file costs
another."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import jax
import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from jgleak.attacks.attack import OUT_OF_TIME, Attack, Reconstruction
from jgleak.attacks.census.checks import condition_of
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.registry import ATTACKS
from jgleak.attacks.span.leak_points import LeakPoint
from jgleak.audit.grid import read_grid
from jgleak.audit.inversion import beside_truth
from jgleak.audit.recorded.client import file_digest, recorded_client
from jgleak.audit.recorded.recorded import Recorded
from jgleak.audit.report.render import render_html, render_markdown
from jgleak.audit.results import Unit, open_audit
from jgleak.audit.specification import Faults
from jgleak.audit.table import certificate_text, members_conditions
from jgleak.cli import app
from jgleak.datasets import load as load_dataset
from jgleak.federated import fedsgd
from jgleak.federated.observation import serialise
from jgleak.gnn import standard
from jgleak.graph import Graph

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/results-1.json").read_text(encoding="utf-8"))
DATA = load_dataset("embedded", graphs=3, max_nodes=6)
ATTACKED = '[[attack]]\nattack = "knowing"\n'
GRID = '[[observation]]\nname = "ours"\nfiles = "seen/*.safetensors"\ntruth = "truths"\n' + ATTACKED


def knowing(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
    """The first graphs of the set, whatever was seen, with a certificate."""
    certificate = Certificate("unique", 1, 6, False, 0.0, ("none",))
    graphs = tuple(DATA.graphs[: observation.batch_size])
    whole = Reconstruction(graphs, 0.0, "match", certificate=certificate if len(graphs) == 1 else None)
    return whole


def truth(graph: Graph) -> dict[str, Any]:
    return {"x": graph.x.tolist(), "edges": graph.edges.tolist(), "name": graph.name}


@pytest.fixture(scope="module")
def seen() -> dict[str, bytes]:
    """Files of the three graphs, and of a batch of the first two."""
    model = standard(DATA.space.width, hidden=8)
    params = model.initial(key=jax.random.key(0))
    first, second, third = DATA.graphs
    files = {"a": [first], "b": [second], "c": [third], "two": [first, second]}
    updates = {name: fedsgd(model, params, graphs, DATA.space, loss="bce") for name, graphs in files.items()}
    return {name: serialise(update, DATA.space) for name, update in updates.items()}


@pytest.fixture
def folder(tmp_path: Path, seen: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files, one of them without a truth, and a broken one."""
    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", knowing, several=True))
    first, second, _ = DATA.graphs
    for name in ("seen", "truths"):
        (tmp_path / name).mkdir()
    for name, content in {**seen, "broken": b"not a tensor"}.items():
        (tmp_path / "seen" / f"{name}.safetensors").write_bytes(content)
    for name, told in {"a": truth(first), "b": truth(second), "two": [truth(second), truth(first)]}.items():
        (tmp_path / "truths" / f"{name}.json").write_text(json.dumps(told))
    return tmp_path


def run(folder: Path, grid: str, *options: str) -> Result:
    (folder / "grid.toml").write_text(grid)
    return CliRunner().invoke(app, ["audit", str(folder / "grid.toml"), "--out", str(folder / "out"), *options])


def units(folder: Path) -> dict[str, list[Unit]]:
    found: dict[str, list[Unit]] = {}
    for unit in open_audit(folder / "out").units:
        found.setdefault(Path(unit.cell["file"]).stem, []).append(unit)
    return found


def test_files_have_the_records_of_clients_and_rates_of_the_truth_alone(folder: Path) -> None:
    results = folder / "results.json"
    result = run(folder, GRID, "--fail-on", "unique>2", "--fail-on", "wrong>0", "--results", str(results))
    found = units(folder)
    assert result.exit_code == 4, result.output
    (right,), (wrong,), (untold,) = (found[name] for name in "abc")
    assert (right.record["exact"], right.record["truth_in_set"], right.record["gsm2"]) == (True, True, 1.0)
    assert right.record["name"] == DATA.graphs[0].name and right.record["n_nodes"] == DATA.graphs[0].n
    assert wrong.record["exact"] is False and wrong.record["certificate"]["status"] == "unique"
    names = ("exact", "gsm0", "gsm1", "gsm2", "truth_in_set", "guess_rate", "n_nodes")
    assert all(untold.record[name] is None for name in names) and untold.record["certificate"]["status"] == "unique"
    assert untold.record["name"] == "c" and untold.record["graphs"] == 1
    assert [unit.record["exact"] for unit in found["two"]] == [True, True], "matched, in whatever order they are told"
    assert [unit.status for unit in found["broken"]] == ["failed"] and "broken" in (found["broken"][0].reason or "")
    document = json.loads(results.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    (row,) = document["rows"]
    assert (row["unique"], row["wrong"], row["clients"], row["failed"]) == (3, 1, 5, 1)
    counts = row["exact"]["clients"], row["exact"]["graphs"]
    assert counts == (3, 4) and row["exact"]["mean"] == 0.75, "the file without a truth is in no rate"
    assert (row["data"], row["model"], row["defense"]) == ("ours", "as recorded", "as recorded")
    assert not open_audit(folder / "out").lost
    again = CliRunner().invoke(app, ["verify", str(folder / "out/reconstructions" / f"{right.hash}.json")])
    assert "certificate unique of 1" in again.stdout, "the store holds a copy of the file"


def test_reports_say_what_is_not_known(folder: Path) -> None:
    run(folder, GRID)
    audit = open_audit(folder / "out")
    page = render_markdown(audit)
    assert "Clients are singled out" in page and "clients that ran, whose updates were recorded" in page
    assert "The truth of 1 more is not known" in page and "5 observation files, the truth known of 3 of them" in page
    assert "simulated" not in page
    assert ">not known</p>" in render_html(audit, folder / "out")


def test_without_a_truth_certificates_stand_and_rates_are_absent(folder: Path) -> None:
    grid = GRID.replace('truth = "truths"\n', "").replace("*", "[ab]")
    result = run(folder, grid, "--fail-on", "exact>0", "--fail-on", "wrong>0")
    said = result.stderr.replace("\n", " ")
    assert result.exit_code == 0 and "not judged by exact>0, since the truth of no client is known" in said
    assert "not judged by wrong>0, since the truth of no client is known" in said
    assert run(folder, grid, "--resume", "--fail-on", "wrong<1").exit_code == 0, "none is no number of wrong ones"
    assert run(folder, grid, "--resume", "--fail-on", "unique>1").exit_code == 4
    page = render_markdown(open_audit(folder / "out"))
    assert "Clients are singled out" in page and "In 2 of 2 attacks by knowing the update fits one graph alone" in page
    assert "Of 2 a certificate says that no other graph explains the update" in page and "no rate is" in page
    assert "rate 0.00" not in page and "exactly" not in page.split("## What leaks")[0]


def test_graphs_without_certificate_or_truth_are_neither_a_leak_nor_its_absence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = lambda observation, knowledge, *, key, budget: Reconstruction((DATA.graphs[0],), None, "steps")  # noqa: E731
    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", bare))
    run(folder, GRID.replace('truth = "truths"\n', "").replace("*", "c"))
    page = render_markdown(open_audit(folder / "out"))
    assert "it is not known whether they are the clients'" in page and "No private graph was rebuilt" not in page


def test_one_file_of_truths_and_what_is_told_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def listening(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        told.append((knowledge.n, knowledge.sizes))
        return Reconstruction((), None, "nothing")

    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", listening, several=True))
    first, second, _ = DATA.graphs
    (folder / "all.json").write_text(json.dumps({"a": truth(first), "two": [truth(first), truth(second)]}))
    result = run(folder, GRID.replace('"truths"', '"all.json"') + 'know = ["n"]\n')
    assert result.exit_code == 1, "the broken file failed"
    assert told == [(first.n, ()), (max(first.n, second.n), tuple(sorted((first.n, second.n), reverse=True)))]
    found = units(folder)
    assert found["b"][0].status == found["c"][0].status == "skipped" and "this file has none" in str(
        found["c"][0].reason
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ({"x": [[0]], "edges": []}, "expected shape"),
        ([], "has 0 graphs for a.safetensors"),
        ([truth(DATA.graphs[0])] * 2, "has 2 graphs for a.safetensors, whose update is of 1"),
        ({"x": [[0]], "edges": [], "z": 1}, "unknown field 'z'"),
        ({"edges": []}, "give codes of features in x"),
        ("CCO", "give codes of features in x"),
    ],
)
def test_a_truth_that_does_not_fit_fails_its_own_file(folder: Path, text: Any, words: str) -> None:
    (folder / "truths" / "a.json").write_text(json.dumps(text))
    assert run(folder, GRID.replace("*", "[ab]")).exit_code == 1
    found = units(folder)
    assert found["b"][0].status == "done" and found["a"][0].status == "failed"
    assert words in str(found["a"][0].reason), found["a"][0].reason


def test_going_on_needs_the_same_files_and_fails_those_that_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def stopping(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return Reconstruction((), None, "nothing")

    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", stopping))
    grid = GRID.replace("*", "[abc]")
    assert run(folder, grid).exit_code == 130 and len(units(folder)) == 1
    (folder / "seen" / "c.safetensors").write_bytes((folder / "seen" / "a.safetensors").read_bytes())
    assert run(folder, grid, "--resume").exit_code == 1 and len(calls) == 3, "the first is not attacked again"
    assert {name: found[0].status for name, found in units(folder).items()} == {"a": "done", "b": "done", "c": "failed"}
    assert "has changed since the audit began" in str(units(folder)["c"][0].reason)
    (folder / "seen" / "a.safetensors").rename(folder / "kept")
    gone = run(folder, grid, "--resume")
    assert gone.exit_code == 2 and "a.safetensors is gone; bring it back" in gone.stderr.replace("\n", "")


HEADERS = [
    *({"batch_size": wrong} for wrong in (2.5, True, 0, "1", 10**30)),
    *({"local": {"rate": 0.1, "steps": 1} | wrong} for wrong in ({"loader": 1.5}, {"steps": True}, {"rate": "0.1"})),
    {"local": {"rate": 10**400, "steps": 1}},
    {"protocol": ["fedavg"]},
]


def with_header(content: bytes, changes: dict[str, Any]) -> bytes:
    """An observation file whose header says something else."""
    size = int.from_bytes(content[:8], "little")
    parts = json.loads(content[8 : 8 + size])
    parts["__metadata__"]["jgleak"] = json.dumps(json.loads(parts["__metadata__"]["jgleak"]) | changes)
    header = json.dumps(parts).encode()
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def test_a_header_that_breaks_its_fields_costs_its_own_file_alone(folder: Path, seen: dict[str, bytes]) -> None:
    for number, changes in enumerate(HEADERS):
        content = with_header(seen["a"], {"protocol": "fedavg", "local": {"rate": 0.1, "steps": 1}} | changes)
        (folder / "seen" / f"b{number}.safetensors").write_bytes(content)
    assert run(folder, GRID.replace("*", "[ab]*")).exit_code == 1
    found = {name: (one.status, str(one.reason)) for name, (one,) in units(folder).items()}
    assert found.pop("a")[0] == found.pop("b")[0] == "done" and len(found) == len(HEADERS) + 1
    assert {status for status, _ in found.values()} == {"failed"}
    assert not any("Traceback" in reason for _, reason in found.values()), found


def test_files_beside_simulated_clients(folder: Path) -> None:
    both = "[[data]]\ngraphs = 1\nmax_nodes = 6\n[[model]]\nhidden = 8\n" + GRID.replace("*", "a")
    assert run(folder, both).exit_code == 0
    simulated, own = open_audit(folder / "out").units
    assert ("file" in simulated.cell, own.cell["file"]) == (False, "seen/a.safetensors")
    same = ("exact", "gsm1", "truth_in_set", "name", "n_nodes", "certificate", "protocol", "entries")
    assert [simulated.record[name] for name in same] == [own.record[name] for name in same]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "files: missing"),
        ('files = "nowhere/*"', "matches no file"),
        ('files = "seen"', "is a folder; name the files in it"),
        ("files = []", "expected texts in quotes"),
        ('files = "seen/*"\ntruth = "lies"', "'lies' is not beside the grid"),
        ('files = "seen/*"\nfeatures = "pgy"', "pgy: no such file; name molecules, pyg or ogb"),
        ('files = "seen/*"\nnoise = -1.0', "expected a standard deviation"),
        ('files = "seen/*"\nfeature = "molecules"', "did you mean 'features'"),
        ('files = ["seen/a.safetensors"]\n[[observation]]\nname = "x"\nfiles = "seen/a*"', "the same experiment as"),
        ('name = "embedded"\nfiles = "seen/*"\n[[data]]', "observation[0].name: data[0] is called 'embedded' too"),
        ('files = "seen/*"\n[[model]]\nhidden = 8', "is of simulated clients; add a [[data]] table"),
    ],
)
def test_a_table_that_does_not_fit_is_one_clear_mistake(folder: Path, table: str, words: str) -> None:
    with pytest.raises(Faults) as error:
        read_grid(f"[[observation]]\n{table}\n{ATTACKED}", folder)
    assert words in str(error.value)


def test_columns_that_nobody_describes_are_a_mistake_of_the_grid(folder: Path, seen: dict[str, bytes]) -> None:
    grid = GRID.replace("*", "[abc]")
    for name in ("a", "b"):
        (folder / "seen" / f"{name}.safetensors").write_bytes(with_header(seen[name], {"space": None}))
    assert len(read_grid(grid, folder).cells) == 3, "one file says it"
    (folder / "seen" / "c.safetensors").write_bytes(with_header(seen["c"], {"space": None}))
    result = run(folder, grid, "--dry-run")
    assert result.exit_code == 2 and "features: missing, and no file says" in " ".join(result.output.split())
    assert len(read_grid(grid.replace("files", 'features = "molecules"\nfiles'), folder).cells) == 3


def test_a_file_that_is_recorded_again_is_read_again(folder: Path, seen: dict[str, bytes]) -> None:
    (cell,) = read_grid(GRID.replace("*", "a"), folder).cells
    for name in ("a", "b"):
        (folder / "seen" / "a.safetensors").write_bytes(seen[name])
        client = recorded_client(cell.specification)
        assert serialise(client.observation, client.knowledge.space) == seen[name]


def test_a_schema_lies_beside_the_grid_and_going_on_needs_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    Path("schema.json").write_text("{}")
    grid = GRID.replace("*", "a").replace("files", 'features = "schema.json"\nfiles')
    digests = set()
    for name in ("ours", "theirs"):
        schema = DATA.space.to_json()
        schema["features"][-1]["name"] = name
        (folder / "schema.json").write_text(json.dumps(schema))
        (cell,) = read_grid(grid, folder).cells
        assert recorded_client(cell.specification).knowledge.space.features[-1].name == name
        digests.add(file_digest(cell.specification))
    assert len(digests) == 2


def test_letters_of_patterns_in_folders_and_names_are_letters(folder: Path) -> None:
    odd = folder / "run[1]*"
    (odd / "seen").mkdir(parents=True)
    for name in ("a", "b", "c[1]"):
        (odd / "seen" / f"{name}.safetensors").write_bytes((folder / "seen" / f"{name[0]}.safetensors").read_bytes())
    grid = GRID.replace('truth = "truths"\n', "")
    assert [Path(cell.label["file"]).stem for cell in read_grid(grid.replace("*", "[ab]"), odd).cells] == ["a", "b"]
    (cell,) = read_grid(grid.replace("*", "c[1]"), odd).cells
    assert cell.label["file"] == "seen/c[1].safetensors"


def test_a_refused_file_is_skipped_and_the_others_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def single(observation: Any, knowledge: Any) -> str | None:
        return "one graph alone" if observation.batch_size > 1 else None

    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", knowing, unsupported=single, several=True))
    assert run(folder, GRID.replace("*", "[abt]*")).exit_code == 1
    found = units(folder)
    assert {unit.status for unit in found["two"]} == {"skipped"} and "one graph alone" in str(found["two"][0].reason)
    assert found["a"][0].status == "done"


def test_the_example_can_run(folder: Path) -> None:
    (folder / "seen").rename(folder / "rounds")
    (folder / "rounds" / "a.safetensors").rename(folder / "rounds" / "round-001-client-0.safetensors")
    text = (Path(__file__).parents[2] / "docs/examples/recorded.toml").read_text(encoding="utf-8")
    (cell,) = read_grid(text, folder).cells
    assert cell.label["data"] == "first round" and cell.specification.batch_size == 1
    uncommented = text.replace("# truth", "truth").replace("# features", "features")
    assert {cell.specification.recorded for cell in read_grid(uncommented, folder).cells} == {
        Recorded(
            str(folder / "rounds/round-001-client-0.safetensors"), truth=str(folder / "truths"), features="molecules"
        )
    }


def invert(folder: Path, *options: str) -> Result:
    files = sorted(map(str, (folder / "seen").glob("*.safetensors")))
    return CliRunner().invoke(app, ["invert", *files, "--attack", "knowing", *options])


def test_several_files_have_a_line_each_and_a_summary(folder: Path) -> None:
    result = invert(folder, "--truth", str(folder / "truths"), "--out", str(folder / "found"), "--json")
    assert result.exit_code == 1, "one is broken"
    *records, last = (json.loads(text) for text in result.stdout.splitlines())
    by_name = {Path(record["file"]).stem: record for record in records}
    assert {name: record.get("exact", "failed") for name, record in by_name.items()} == {
        "a": True,
        "b": False,
        "c": None,
        "two": True,
        "broken": "failed",
    }
    assert last["summary"] == {
        **{"files": 5, "failed": 1, "found": 4, "unique": 3, "listed": 3},
        **{"truths": 3, "without_truth": 1, "exact": 2, "truth_in_set": 2, "wrong": 1},
    }
    lines = [text for text in result.stderr.splitlines() if ".safetensors" in text]
    assert len(lines) == 5 and "certified unique; exact" in lines[0] and "not exact (GSM-2 " in lines[1]
    counts = "of 3 with a truth 2 exact, 2 listed, 1 with a complete set that lacks it; 1 without a truth; 1 failed"
    assert counts in result.stderr
    assert {file.stem for file in (folder / "found").iterdir()} == {"a", "b", "c", "two"}, "nothing of the broken one"
    checked = {
        name: CliRunner().invoke(app, ["verify", str(folder / "found" / f"{name}.json")]) for name in ("a", "b", "two")
    }
    assert {name: result.exit_code for name, result in checked.items()} == {"a": 0, "b": 1, "two": 1}
    old = folder / "found" / "broken.json"
    old.write_text("{}")
    again = invert(folder, "--out", str(folder / "found"))
    assert f"; {old} is of an earlier run" in again.stdout.replace("\n", "")
    assert again.stdout.count("of an earlier run") == 1, "what was found replaces the others"
    (folder / "seen" / "broken.safetensors").unlink()
    assert invert(folder).exit_code == 0


def test_one_file_says_whether_it_is_the_truth(folder: Path) -> None:
    file = str(folder / "seen" / "b.safetensors")
    told = CliRunner().invoke(app, ["invert", file, "--attack", "knowing", "--truth", str(folder / "truths")])
    assert "beside the truth: not exact" in told.stdout
    nowhere = CliRunner().invoke(app, ["invert", file, "--attack", "knowing", "--truth", str(folder / "lies")])
    assert nowhere.exit_code == 2 and "lies: no such file" in nowhere.stderr.replace("\n", "")
    twice = CliRunner().invoke(app, ["invert", file, file, "--attack", "knowing", "--out", str(folder / "found")])
    assert twice.exit_code == 2 and "would both be written to b.json" in twice.stderr


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_truth_that_is_not_there_or_no_file_is_an_error_of_one_file(folder: Path, kind: str) -> None:
    place = folder / "truths"
    if kind == "file":
        place = folder / "all.json"
        place.write_text(json.dumps({"a": truth(DATA.graphs[0])}))
    command = ["invert", str(folder / "seen" / "c.safetensors"), "--attack", "knowing", "--truth"]
    result = CliRunner().invoke(app, [*command, str(place)])
    assert result.exit_code == 2 and "has none for c.safetensors" in result.stderr, result.output
    os.mkfifo(folder / "pipe")
    piped = CliRunner().invoke(app, [*command, str(folder / "pipe")])
    assert piped.exit_code == 2 and "is a device or a pipe" in piped.stderr
    (folder / "truths" / "c.json").mkdir()
    assert "c.json: is a folder" in CliRunner().invoke(app, [*command, str(folder / "truths")]).stderr
    table = GRID.replace('"truths"', '"pipe"')
    with pytest.raises(Faults, match="'pipe' is a device or a pipe"):
        read_grid(table, folder)


def test_files_of_one_name_do_not_share_a_truth(folder: Path) -> None:
    (folder / "later").mkdir()
    (folder / "later" / "a.safetensors").write_bytes((folder / "seen" / "c.safetensors").read_bytes())
    (folder / "all.json").write_text(json.dumps({"a": truth(DATA.graphs[0])}))
    (folder / "one.json").write_text(json.dumps(truth(DATA.graphs[0])))
    files = [str(folder / place / "a.safetensors") for place in ("seen", "later")]
    for place in ("truths", "all.json"):
        with pytest.raises(Faults, match="would both have the truth of 'a'"):
            read_grid(GRID.replace("seen/*", "*/a").replace('"truths"', f'"{place}"'), folder)
        told = CliRunner().invoke(app, ["invert", *files, "--attack", "knowing", "--truth", str(folder / place)])
        assert told.exit_code == 2 and "would both have the truth of 'a'" in told.stderr.replace("\n", " ")
    read_grid(GRID.replace("seen/*", "*/a").replace('"truths"', '"one.json"'), folder)


def test_a_failed_write_and_a_missing_size_among_several_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(place: Path, *given: Any) -> None:
        if place.stem == "a":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("jgleak.audit.certified.write", full)
    (folder / "seen" / "broken.safetensors").unlink()
    result = invert(folder, "--out", str(folder / "found"))
    assert result.exit_code == 1 and "No space left on device" in result.stdout
    assert "4 files: 4 found" in result.stdout and "; 1 failed" in result.stdout
    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", knowing, needs=("n",), several=True))
    unsaid = invert(folder)
    assert unsaid.exit_code == 2 and "needs the number of nodes; give --n" in unsaid.stderr


def test_an_answer_for_another_number_of_graphs_is_not_the_truth(folder: Path) -> None:
    first, second, _ = DATA.graphs
    pair, one = Reconstruction((first, second), 0.0, "match"), Reconstruction((first,), 0.0, "match")
    assert beside_truth([first, second], pair, DATA.space, 2) == (True, True, 1.0, True)
    for private, found, size in (([first], pair, 2), ([first, second], one, 1)):
        told = beside_truth(private, found, DATA.space, size)
        assert (told.exact, told.truth_in_set) == (False, False) and 0.5 <= told.gsm2 <= 1.0
    assert beside_truth([first], Reconstruction((), None, "time"), DATA.space, 4) == (False, False, 0.0, None)


@pytest.mark.parametrize("batch", [False, True])
def test_a_wrong_label_beside_the_right_graph_is_said(batch: bool) -> None:
    truths = DATA.graphs[: 1 + batch]
    for change, told in ((lambda y: 1 - y, False), (lambda y: y, True), (lambda _: None, None)):
        graphs = tuple(dataclasses.replace(graph, y=change(graph.y)) for graph in truths)
        seen = beside_truth(truths, Reconstruction(graphs, 0.0, "match"), DATA.space, len(truths))
        assert seen.exact and seen.label is told


@pytest.mark.parametrize("late", [True, False])
def test_one_thing_is_said_of_how_a_search_ended(folder: Path, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def attack(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        return Reconstruction(tuple(DATA.graphs[:1]), 0.0, "match", info={"reason": OUT_OF_TIME} if late else {})

    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", attack))
    said = CliRunner().invoke(app, ["invert", str(folder / "seen" / "a.safetensors"), "--attack", "knowing"]).stdout
    assert (OUT_OF_TIME in said) == late and ("stopped: match" in said) != late


def test_conditions_are_a_line_a_kind_unless_all_are_asked_for() -> None:
    sites = [LeakPoint(name, 1, "state", 0, np.zeros((1, 1)), "so") for name in ("node", "readout")]
    checks = [condition_of(sites[0], 1), condition_of(sites[0], 2), condition_of(sites[1], 0)]
    assert checks[1:] == ["no true 2-hop block fails the node check (so)", "no true node fails the readout check (so)"]
    left = [f"none of {count} candidates occurs" for count in (7, 12)]
    certificate = Certificate("k_graphs", 3, 9, False, 1e-7, (*checks, *left, "the graph is connected"))
    short, whole = (certificate_text(certificate, verbose=verbose).splitlines()[1:] for verbose in (False, True))
    assert short == [
        "  if no true row fails its span check: node (2), readout",
        "  if none of 7 candidates occurs (and 1 alike)",
        "  if the graph is connected",
        "  (all 6 conditions: --verbose, --json)",
    ]
    assert whole == [f"  if {condition}" for condition in certificate.conditions]
    one = Certificate("unique", 1, 9, False, 1e-7, ("the graph is connected",))
    assert certificate_text(one, verbose=False) == certificate_text(one)
    members = [Reconstruction((), None, "match", certificate=found) for found in (certificate, one, None)]
    each = members_conditions(members)
    assert each is not None and each.splitlines()[1:] == whole, "a condition that two share is said once"
    assert members_conditions(members, verbose=False) == "\n".join(["what is said of other graphs holds:", *short])
    assert members_conditions(members[2:]) is None


@pytest.mark.parametrize(
    ("status", "size", "batch", "claim"),
    [
        ("unique", 1, False, "no other graph among connected graphs of up to 9 nodes has this gradient"),
        ("k_graphs", 3, False, "exactly 3 graphs among connected graphs of up to 9 nodes have this gradient"),
        ("at_least_k", 1, False, "at least 1 graph among connected graphs of up to 9 nodes has this gradient; others"),
        ("at_least_k", 4, True, "at least 4 batches among batches of connected graphs of up to 9 nodes have this"),
    ],
)
def test_a_certificate_claims_in_a_sentence(status: Any, size: int, batch: bool, claim: str) -> None:
    text = certificate_text(Certificate(status, size, 9, False, 1e-7), batch=batch)
    assert text.startswith(f"certificate: {claim}") and text.endswith("(recomputed to 1e-07)")
