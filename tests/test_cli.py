"""The command line: what goes to which stream, exit statuses, and files that are there when they are needed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner, Result

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.registry import ATTACKS
from jgleak.audit import setup
from jgleak.audit.compilations import Compiled
from jgleak.audit.table import reasons
from jgleak.cli import app
from jgleak.federated import load, save
from jgleak.version import __version__

QUICK = ("--graphs", "2", "--hidden", "8", "--max-nodes", "8")


def jgleak(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def one_error(result: Result) -> str:
    """The single line on standard error of a user's mistake."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    return lines[0]


def test_a_short_last_client_is_said() -> None:
    said = "batch: the last client has 1 of 2 graphs"
    assert said in jgleak("attack", "empty", *QUICK, "--graphs", "3", "--batch-size", "2").stderr
    assert said not in jgleak("attack", "empty", *QUICK, "--batch-size", "2").stderr


def test_json_lines_alone_on_standard_output() -> None:
    result = CliRunner(env={"FORCE_COLOR": "1"}).invoke(app, ["attack", "empty", *QUICK, "--json"])  # as on a terminal
    assert result.exit_code == 0, result.output
    *records, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert [r["graph"] for r in records] == [0, 1]
    assert "2/2" in result.stderr and "empty, 60 s a client at most" in result.stderr, "the progress"
    for record in records:
        assert record["attack"] == "empty"
        assert record["stop"] == "done"
        assert isinstance(record["exact"], bool)
        assert all(0 <= record[name] <= 1 for name in ("gsm0", "gsm1", "gsm2"))
        assert record["seconds"] > 0 and "gradient_distance" in record
        assert 1 <= record["n_nodes"] <= 8
    summary = last["summary"]
    assert (summary["graphs"], summary["exact_rate"], summary["version"]) == (2, 0.0, __version__)
    assert summary["gsm0"]["low"] <= summary["gsm0"]["mean"] <= summary["gsm0"]["high"]
    assert summary["specification"]["max_nodes"] == 8
    assert "gsm2" in result.stderr and "of 72 rows" in result.stderr


def test_tables_on_standard_output_without_json() -> None:
    result = jgleak("attack", "random", *QUICK, "--know", "n,labels")
    assert result.exit_code == 0, result.output
    assert "gsm2" in result.stdout and "random: 2 clients" in result.stdout
    assert "a client at most" not in result.output, "progress is for terminals"


@pytest.mark.long
def test_out_holds_everything_and_invert_reads_it(tmp_path: Path) -> None:
    first = jgleak("attack", "empty", *QUICK, "--out", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert f"written to {tmp_path}: results.jsonl" in first.stderr
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert len(records) == 3 and "summary" in records[-1]
    assert {p.name for p in tmp_path.glob("*.png")} == {"000.png", "001.png"}
    file = tmp_path / "observations" / "001.safetensors"
    observation, space = load(file)
    assert observation.model.in_features == space.width

    shown = jgleak("invert", str(file), "--attack", "empty", "--n", "3")
    assert shown.exit_code == 3, shown.output
    assert "3 nodes, 0 edges" in shown.stdout
    assert "an approximation, not a reconstruction: its gradient is" in " ".join(shown.stdout.split())
    as_json = jgleak("invert", str(file), "--attack", "empty", "--n", "3", "--json", "--out", str(tmp_path))
    found = json.loads(as_json.stdout)
    assert (found["stop"], found["outcome"], found["reason"]) == ("done", "approximation", None)
    assert found["hints"] == ["another attack (census), or more steps and restarts, may find the graph"]
    assert [sorted(node) for node in found["graphs"][0]["nodes"]] == [sorted(f.name for f in space.features)] * 3
    refuted = jgleak("invert", str(file), "--attack", "empty", "--n", "1")
    assert refuted.exit_code == 2 and "error: --n 1 contradicts the update: its graph has at least" in refuted.stderr
    assert "nodes; correct it, or the number of graphs (--batch-size), or leave it out" in " ".join(
        refuted.stderr.split()
    )
    needed = " ".join(jgleak("invert", str(file), "--attack", "dlg", "--n", "1").stderr.split())
    assert needed.endswith("correct it, or the number of graphs (--batch-size)")
    assert "dlg needs the number of nodes; give --n" in one_error(jgleak("invert", str(file), "--attack", "dlg"))
    dropping = tmp_path / "dropping.safetensors"
    save(dropping, dataclasses.replace(observation, model=observation.model.clone(dropout=0.5)), space)
    assert "'census' cannot run here" in jgleak("invert", str(dropping)).stderr
    matched = json.loads(
        jgleak("invert", str(dropping), "--attack", "dlg", "--n", "3", "--option", "steps=1", "--json").stdout
    )
    assert matched["info"]["options"]["steps"] == 1
    assert matched["hints"] == ["more steps and restarts may find the graph"], "the census refuses this file"
    checked = jgleak("verify", str(tmp_path / "reconstruction.json"))
    assert checked.exit_code == 1 and "does not hold" in checked.stdout, "an edgeless guess explains no gradient"


def test_a_batchs_sizes_are_given_with_commas_and_all_its_graphs_are_shown(tmp_path: Path) -> None:
    attack = jgleak("attack", "empty", *QUICK, "--batch-size", "2", "--out", str(tmp_path))
    assert attack.exit_code == 0, attack.output
    run = ("invert", str(tmp_path / "observations" / "000.safetensors"), "--attack", "empty", "--n")
    shown = jgleak(*run, "4,3")
    assert shown.exit_code == 3, shown.output
    assert "4 nodes, 0 edges" in shown.stdout and "3 nodes, 0 edges" in shown.stdout
    assert "gradient distance unknown; the graphs of the batch (2), in no order" in shown.stdout
    refused = jgleak(*run, "5,4,3")
    assert refused.exit_code == 2 and "sizes of 3 graph(s) are given and 2 are behind the update" in refused.stderr
    assert refused.stdout.startswith("what the update shows by itself"), "facts come first, whatever happens then"
    assert "n: expected a whole number, or several with commas" in one_error(jgleak(*run, "4,"))
    assert "n: 5 nodes are more than --max-n 4 allows; give one of the two" in one_error(
        jgleak(*run, "5", "--max-n", "4")
    )
    unsized = one_error(jgleak("invert", run[1], "--attack", "dlg"))
    assert "one number for all graphs or one each (--n 9,7)" in unsized
    assert {p.name for p in (tmp_path / "observations").iterdir()} == {"000.safetensors"}, "one update, one file"
    assert {p.name for p in (tmp_path / "reconstructions").iterdir()} == {"000.json"}
    document = json.loads((tmp_path / "reconstructions" / "000.json").read_text())
    assert document["observation"] == "../observations/000.safetensors" and document["reason"] is None


def test_public_graphs_for_a_saved_observation(tmp_path: Path) -> None:
    attack = jgleak("attack", "empty", *QUICK, "--out", str(tmp_path))
    assert attack.exit_code == 0, attack.output
    run = ("invert", str(tmp_path / "observations" / "000.safetensors"), "--attack", "mean-adjacency", "--n", "5")
    generator = jgleak("invert", run[1], "--attack", "gi-gan", "--n", "4")
    assert "gi-gan needs public graphs; name a data set" in one_error(generator)
    assert "nowhere" in one_error(jgleak(*run, "--auxiliary", "nowhere"))
    found = jgleak(*run, "--auxiliary", "embedded", "--json")
    assert found.exit_code == 3, found.output
    (guess,) = json.loads(found.stdout)["graphs"]
    assert len(guess["nodes"]) == 5 and guess["edges"], "public molecules of five atoms are connected"


def test_why_an_attack_ended_is_told(tmp_path: Path) -> None:
    words = (*QUICK, "--know", "n", "--defense", "gaussian:1", "--out", str(tmp_path))
    shown = jgleak("attack", "census", *words)
    assert shown.exit_code == 0, shown.output
    assert "graphs 0, 1: noise of deviation 1.0e+00 alone explains the update" in shown.stdout
    reason = json.loads((tmp_path / "reconstructions" / "001.json").read_text())["reason"]
    assert reason == "noise of deviation 1.0e+00 alone explains the update"
    run = ("invert", str(tmp_path / "observations" / "001.safetensors"), "--n", "5")
    known, unknown = (" ".join(jgleak(*run, *noise).stdout.split()) for noise in (("--noise", "1"), ()))
    assert jgleak(*run, "--noise", "1").exit_code == 3
    assert f"nothing found (no information): {reason} --noise must be what the clients added" in known
    assert "oise that clients add needs --noise" in unknown


@pytest.mark.parametrize("compiling", [1e6, 0.0])
def test_nothing_found_for_compilation_says_so_first(
    compiling: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after what the search says of itself, which hardly began."""
    assert jgleak("attack", "empty", *QUICK, "--out", str(tmp_path)).exit_code == 0
    counts = itertools.chain([Compiled()], itertools.repeat(Compiled(1, compiling)))
    monkeypatch.setattr("jgleak.audit.inversion.compilations", lambda: next(counts))
    file = tmp_path / "observations" / "001.safetensors"
    shown = jgleak("invert", str(file), "--time-limit", "0.001")
    assert shown.exit_code == 3, shown.output
    first = next(line for line in shown.stdout.splitlines() if "compil" in line)
    assert first.startswith("nothing found (time): compilation took 1000000.0 s of") == bool(compiling)
    assert shown.stdout.count("compilation took") == bool(compiling)
    assert shown.stdout.count("nothing found (time)") == 1


@pytest.mark.usefixtures("unchecked")
@pytest.mark.long
def test_an_update_of_an_unknown_number_of_graphs(tmp_path: Path) -> None:
    """The number that was read off goes into the file that `verify` reads."""
    words = ("--batch-size", "2", "--hidden", "64", "--head", "64", "--readout", "pooled", "--last-activation")
    made = jgleak("attack", "empty", "--graphs", "2", "--max-nodes", "8", *words, "--out", str(tmp_path))
    assert made.exit_code == 0, made.output
    observation, space = load(tmp_path / "observations" / "000.safetensors")
    file = tmp_path / "one.safetensors"
    save(file, dataclasses.replace(observation, batch_size=1), space)
    (tmp_path / "one.json").write_text(json.dumps({"x": [[0] * len(space.features)], "edges": []}))
    words = (
        "--batch-size",
        "unknown",
        "--json",
        "--out",
        str(tmp_path / "found"),
        "--truth",
        str(tmp_path / "one.json"),
    )
    found = jgleak("invert", str(file), *words)
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert (record["exact"], record["truth_in_set"]) == (False, False), "of two graphs, one is told"
    assert record["outcome"] == "found" and record["batch_size"] == len(record["members"]) == 2
    assert record["facts"] and any("fewest graphs" in condition for condition in record["certificate"]["conditions"])
    checked = jgleak("verify", str(tmp_path / "found" / "reconstruction.json"))
    assert checked.exit_code == 0 and "graphs found: 2 of 2" in checked.stdout
    assert "only census can find the number" in one_error(
        jgleak("invert", str(file), "--batch-size", "unknown", "--attack", "dlg")
    )
    assert "batch_size: expected a whole number or 'unknown'" in one_error(
        jgleak("invert", str(file), "--batch-size", "some")
    )
    assert "batch_size: must be a whole number from 1" in one_error(jgleak("invert", str(file), "--batch-size", "0"))


def test_many_reasons_are_cut() -> None:
    told = [{"graph": i, "info": {"reason": f"reason {min(i, 6)}"}} for i in range(8)]
    lines = reasons([*told, {"graph": 99, "info": {}}])
    assert lines[0] == "graphs 6, 7: reason 6" and lines[1] == "graph 0: reason 0"
    assert lines[-1].startswith("2 more reasons") and len(lines) == 6


def test_a_node_protocol_asks_for_a_node_task() -> None:
    refused = jgleak("attack", "glg-node-2", *QUICK)
    assert refused.exit_code == 2 and "add --node-task" in refused.output


@pytest.mark.usefixtures("unchecked")
@pytest.mark.long
def test_a_certificate_is_verified_from_scratch(tmp_path: Path) -> None:
    found = jgleak("attack", "census", "--graphs", "1", "--max-nodes", "8", "--hidden", "64", "--out", str(tmp_path))
    assert found.exit_code == 0, found.output
    file = tmp_path / "reconstructions" / "000.json"
    again = jgleak("invert", str(tmp_path / "observations" / "000.safetensors"), "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["outcome"] == "found"
    good = jgleak("verify", str(file))
    shown = "holds: every listed graph has the observed gradient, and none is listed twice; "
    ended = "that there are no others follows from the search, which is not repeated here"
    others = "others are not excluded, by the search or by this check"
    assert good.exit_code == 0 and good.stdout.splitlines()[-1] in (shown + ended, shown + others)
    document = json.loads(file.read_text())
    for status, rest in (("k_graphs", ended), ("at_least_k", others)):
        file.write_text(json.dumps(document | {"certificate": document["certificate"] | {"status": status}}))
        assert jgleak("verify", str(file)).stdout.splitlines()[-1] == shown + rest
    twice = {**document, "graphs": [*document["graphs"], document["graphs"][0]]}
    certificate, true = document["certificate"], document["graphs"][0]["y"]

    def labelled(y: object) -> dict:
        return {**document, "graphs": [{**document["graphs"][0], "y": y}, *document["graphs"][1:]]}

    forgeries = (
        (twice, "two listed graphs are isomorphic"),
        ({**document, "graphs": []}, "no graph is listed"),
        (labelled(1 - true), f"graph 0: y: with its label {1 - true} its gradient is "),
        (labelled(9), "graph 0: y: 9 has a label outside the classes 0..1"),
        (labelled(None), "graph 0: y: expected one label, got None"),
        (labelled([1] * len(document["graphs"][0]["x"])), "graph 0: y: expected one label, got array([1, "),
        ({**document, "certificate": {**certificate, "size": 7}}, "it counts 7 graphs, "),
        ({**document, "certificate": {**certificate, "n_max": 2}}, "a listed graph has more than 2 nodes"),
        ({**document, "certificate": {**certificate, "conditions": []}}, "it names no condition"),
        ({**document, "certificate": {**certificate, "status": "certain"}}, "status 'certain' is none of unique, "),
        ({**document, "graphs": []}, "no graph is listed"),
    )
    for forged, fault in forgeries:
        file.write_text(json.dumps(forged))
        bad = jgleak("verify", str(file))
        assert bad.exit_code == 1 and bad.stdout.splitlines()[-1] == "does not hold"
        assert f"fault: {fault}" in bad.stdout
    file.write_text(json.dumps({**document, "graphs": [], "certificate": None}))
    bare = jgleak("verify", str(file))
    assert bare.exit_code == 1 and bare.stdout.endswith("nothing is claimed: nothing to verify\n")
    for broken in ("{", json.dumps({"format": "other"}), json.dumps({**document, "graphs": [{}]})):
        file.write_text(broken)
        bad = jgleak("verify", str(file))
        assert bad.exit_code == 2 and bad.stderr.startswith("error: file:")
    for absent in (tmp_path, tmp_path / "absent.json"):
        assert "give a file of a folder 'reconstructions'" in one_error(jgleak("verify", str(absent)))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("attack", "randm"), "did you mean 'random'"),
        (("attack", "empty", "--dataset", "tox22"), "tox21"),
        (("attack", "grain", "--dataset", "nosuch"), "embedded"),
        (("attack", "empty", "--model", "gcnn"), "gcn"),
        (("attack", "empty", "--readout", "mean"), "node_mlp"),
        (("attack", "empty", "--know", "truth"), "adjacency"),
        (("attack", "empty", "--graphs", "0"), "at least 1"),
        (("attack", "empty", "--time-limit", "-1"), "time_limit"),
        (("attack", "mean-adjacency", *QUICK), "--know auxiliary"),
        (("attack", "empty", "--dataset", "tox21", "--path", "/nowhere"), "/nowhere"),
        (("invert", "nowhere.safetensors", "--attack", "empty"), "nowhere.safetensors"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments: tuple[str, ...], hint: str) -> None:
    assert hint in one_error(jgleak(*arguments))


def test_unwritable_out_is_found_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "prepare", lambda specification: pytest.fail("work began"))
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    folders = [blocked / "folder", *([Path("/proc/results")] if sys.platform == "linux" else [])]
    for folder in map(str, folders):
        assert "out: cannot write" in one_error(jgleak("attack", "empty", "--out", folder))
        assert "out: cannot write" in one_error(jgleak("invert", "any.safetensors", "--out", folder))


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (("empty", "--dataset", "tox21", "--path", "/nowhere"), "/nowhere"),
        (("dlg",), "cannot run here"),
        (("idlg", "--know", "n", "--option", "stepz=3"), "stepz"),
    ],
)
def test_a_run_that_never_began_leaves_its_folder_free(tmp_path: Path, wrong: tuple[str, ...], hint: str) -> None:
    made, own = tmp_path / "new" / "deep", tmp_path / "own"
    own.mkdir()
    for folder in (made, own):
        assert hint in one_error(jgleak("attack", *wrong, *QUICK, "--out", str(folder)))
    assert not made.parent.exists() and own.is_dir() and not list(own.iterdir())


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors and the header of an honest observation file."""
    folder = tmp_path_factory.mktemp("observed")
    assert jgleak("attack", "empty", *QUICK, "--graphs", "1", "--out", str(folder)).exit_code == 0
    with safe_open(folder / "observations" / "000.safetensors", framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 - not a dict


def test_a_gradient_with_nan_is_refused(observed: Any, tmp_path: Path) -> None:
    tensors, header = observed
    kernel = tensors["update/layers_0/conv/kernel"].copy()
    kernel[0, 0] = np.nan
    save_file(tensors | {"update/layers_0/conv/kernel": kernel}, tmp_path / "nan", metadata=header)
    assert "'layers_0/conv/kernel' holds NaN" in one_error(jgleak("invert", str(tmp_path / "nan")))


def test_an_observation_without_a_space_is_given_one(observed: Any, tmp_path: Path) -> None:
    tensors, header = observed
    fields = json.loads(header["jgleak"])
    file, schema = tmp_path / "seen", tmp_path / "schema.json"
    save_file(tensors, file, metadata={"jgleak": json.dumps(fields | {"space": None})})
    schema.write_text(json.dumps({"features": [{"name": "kind", "values": [0, 1]}]}))
    run = ("invert", str(file), "--attack", "empty", "--n", "5")
    assert "does not say what the columns" in one_error(jgleak(*run))
    assert "has 2 columns, the model takes" in one_error(jgleak(*run, "--features", str(schema)))
    assert "the nodes of 'synthetic-er' are not atoms" in one_error(
        jgleak(*run, "--features", "molecules:synthetic-er")
    )
    assert "give 'molecules', 'pyg' or 'ogb'" in one_error(jgleak(*run, "--features", "nowhere.json"))
    assert "tells 0 edge classes apart, but the feature space lists 4" in one_error(
        jgleak(*run, "--features", "molecules+bonds")
    )
    schema.write_text(json.dumps(fields["space"]))
    for features in ("molecules", "molecules:embedded", str(schema)):
        shown = jgleak(*run, "--features", features, "--json", "--out", str(tmp_path))
        assert shown.exit_code == 3, shown.output
        (molecule,) = json.loads(shown.stdout)["smiles"]
        assert molecule["texts"] and not molecule["inferred"] and "SMILES" not in shown.stderr
        assert "does not hold" in jgleak("verify", str(tmp_path / "reconstruction.json")).stdout


def test_a_gradient_of_another_model_is_refused(observed: Any, tmp_path: Path) -> None:
    tensors, header = observed
    wider = np.zeros((tensors["update/layers_0/conv/kernel"].shape[0], 9), np.float32)
    save_file(tensors | {"update/layers_0/conv/kernel": wider}, tmp_path / "wider", metadata=header)
    assert "belongs to another model" in one_error(jgleak("invert", str(tmp_path / "wider")))
    fewer = {name: tensor for name, tensor in tensors.items() if name != "update/layers_1/conv/kernel"}
    save_file(fewer, tmp_path / "fewer", metadata=header)
    assert "fewer layers" in one_error(jgleak("invert", str(tmp_path / "fewer")))


def test_a_decomposition_that_fails_is_no_mistake_of_the_user_s(
    observed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors, header = observed
    save_file(tensors, tmp_path / "seen", metadata=header)

    def breaks(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setitem(ATTACKS, "empty", Attack("empty", breaks))
    result = jgleak("invert", str(tmp_path / "seen"), "--attack", "empty")
    assert result.exit_code == 1, result.output
    assert result.stderr.count("error: ") == 1 and "Traceback" not in result.stderr
    assert "error: the attack broke down: a decomposition of a matrix failed (SVD did not converge). Neither" in (
        result.stderr
    )


def _attack(monkeypatch: pytest.MonkeyPatch, second: BaseException) -> None:
    calls = []

    def fragile(observation, knowledge, *, key, budget) -> Reconstruction:
        calls.append(1)
        if len(calls) == 2:
            raise second
        return Reconstruction((), None, "done", info={"blocks": np.int64(3)})

    monkeypatch.setitem(ATTACKS, "fragile", Attack("fragile", fragile))


def test_ctrl_c_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _attack(monkeypatch, KeyboardInterrupt())
    result = jgleak("attack", "fragile", *QUICK, "--json", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert f"interrupted; what has finished is in {tmp_path}; another run begins anew" in result.stderr
    record, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert record["info"] == {"blocks": 3}
    assert last["summary"]["graphs"] == 1
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
    assert "holds an earlier run" in one_error(jgleak("attack", "empty", *QUICK, "--out", str(tmp_path)))
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2, "nothing is added to it"


def test_a_breakdown_is_shown_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    _attack(monkeypatch, RuntimeError("no memory left"))
    result = jgleak("attack", "fragile", *QUICK, "--json")
    assert result.exit_code == 1
    assert "no memory left" in result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["summary"]["failures"] == 1


def test_list_names_everything() -> None:
    result = jgleak("list")
    assert result.exit_code == 0
    for name in (*ATTACKS, "embedded", "tox21"):
        assert f"\n  {name} " in result.stdout or f"\n  {name}\n" in result.stdout
    for words in (
        "gcn, gat",
        "node_mlp",
        "gelu",
        "adjacency, features",
        "none, batch, layer",
        "rows, linear",
        "last, ",
    ):
        assert words in result.stdout


def test_version() -> None:
    assert jgleak("--version").stdout.strip() == __version__


def test_help_does_not_load_jax() -> None:
    code = "import sys, jgleak, jgleak.cli; sys.exit('jax' in sys.modules)"
    begun = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert time.monotonic() - begun < 10
