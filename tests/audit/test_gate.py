"""The gate: criteria, the rows that meet them, exit statuses, and the formats that other programs read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from scipy import stats
from typer.testing import CliRunner, Result

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.registry import ATTACKS
from jgleak.audit.gate.criterion import criterion
from jgleak.audit.gate.gate import judge
from jgleak.audit.gate.quantities import QUANTITIES
from jgleak.audit.gate.sarif import GATE, RULES
from jgleak.audit.results import Audit, Unit, open_audit
from jgleak.cli import app
from jgleak.datasets import load as load_dataset

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "results-1.json").read_text(encoding="utf-8"))
GRID = """
name = "gated"
[[data]]
graphs = 2
max_nodes = 7
[[model]]
hidden = 8
[[attack]]
attack = "knowing"
[[attack]]
attack = "random"
know = ["n"]
"""


def unit(exact: bool = False, **fields: Any) -> Unit:
    """A finished unit of a row; ``status`` and ``size`` make a certificate."""
    size, status = fields.pop("size", None), fields.pop("certified", "unique")
    record = {"exact": exact, "truth_in_set": exact, "guess_rate": float(exact), "name": fields.pop("name", None)}
    record |= {f"gsm{k}": 1.0 if exact else 0.25 for k in range(3)}
    record["certificate"] = None if size is None else {"status": status, "size": size}
    label = {"data": "d", "model": "m", "attack": "census", "defense": "none", "seed": "0"} | fields.pop("cell", {})
    specification = {"attack": label["attack"], "defense": "", "batch_size": 1}
    state = fields.pop("state", "done")
    number = next(COUNT)
    shown = record if state == "done" else {}
    return Unit(f"{number:064x}", label, specification, number, state, None, shown, "cpu", {}, 1.0, "")


COUNT: Iterator[int] = iter(range(1, 10**6))


def audit_of(*units: Unit) -> Audit:
    return Audit("by hand", "", len(units), list(units))


def met(text: str, *units: Unit) -> bool:
    result = judge(audit_of(*units), [criterion(text)])
    assert result.passes == (not result.breaches and not result.empty)
    return bool(result.breaches)


TEN = [unit(exact=k < 3, name=f"g{k}") for k in range(10)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exact>0.29", True),
        ("exact > 0.3", False),
        ("exact>=.3", True),
        ("exact==0.3", True),
        ("exact!=0.3", False),
        ("exact<0.31", True),
        ("exact<=0.29", False),
        ("gsm1>0.4", True),
        ("in_set>=0.3", True),
        ("guess<0.3", False),
        ("clients<10", False),
        ("clients>=10", True),
        ("failed>0", False),
        ("unique>0", False),
        ("smallest_set<1e6", False),
    ],
)
def test_numbers_are_compared_as_they_are_written(text: str, expected: bool) -> None:
    assert met(text, *TEN) is expected


def test_ends_of_a_yes_or_no_are_those_of_the_binomial_and_never_meet() -> None:
    low, high = stats.beta.ppf(0.025, 3, 8), stats.beta.ppf(0.975, 4, 7)
    for name, value in (("low", low), ("high", high)):
        assert met(f"exact.{name}>{value - 1e-6:.8f}", *TEN) and not met(f"exact.{name}>{value + 1e-6:.8f}", *TEN)
    none = [unit(name=f"n{k}") for k in range(3)]
    assert not met("exact>0", *none) and met("exact.high>0.7", *none), "0 of 3 shows little"
    assert met("gsm1.high>0.24", *none) and not met("gsm1.high>0.26", *none)


def test_sets_are_counted_by_what_their_certificates_claim() -> None:
    units = unit(size=1, exact=True), unit(size=7, certified="k_graphs"), unit(size=2, certified="at_least_k"), unit()
    assert met("unique==1", *units) and met("listed==3", *units) and met("smallest_set<2", *units)
    assert not met("smallest_set<7", *units[1:]) and met("smallest_set<=7", *units[1:]), "two at least may be many"
    assert not met("smallest_set<=7", *units[2:]), "a row that has no complete set meets nothing"
    right, open_set = unit(exact=True, size=7, certified="k_graphs"), unit(size=2, certified="at_least_k")
    assert not met("wrong>0", units[0], right, open_set) and met("wrong>0", unit(size=1))
    assert met("wrong>0", unit(size=7, certified="k_graphs")), "a complete set that lacks the client's graph"


def test_a_graph_under_two_seeds_is_one_client_of_rates() -> None:
    """Counts are of attacks; two seeds do not make an interval narrower."""
    both = [unit(exact=True, size=1, name="g", cell={"seed": seed}) for seed in "01"]
    assert met("unique==2", *both) and met("exact.low<0.026", *both), "one of one"
    torn = unit(exact=True, name="g", cell={"seed": "0"}), unit(name="g", cell={"seed": "1"})
    assert met("exact==0.5", *torn), "neither a yes nor a no"
    assert met("exact.high>0.99", *torn) and not met("exact.low>0", *torn), "and no word about other clients"


def test_the_row_that_fails_is_named_and_baselines_are_not_looked_at() -> None:
    leaking = unit(size=1, exact=True, cell={"model": "wide"})
    guess = unit(size=1, exact=True, cell={"attack": "random"})
    result = judge(audit_of(unit(), leaking, guess), [criterion("unique>0"), criterion("exact>0.9")])
    assert [(b.criterion.text, b.row.model, b.value) for b in result.breaches] == [
        ("unique>0", "wide", 1),
        ("exact>0.9", "wide", 1.0),
    ]
    assert result.lines[0] == "gate failed: unique>0: 1 in d, wide, census, no defence (1 attack)"


def test_rows_in_which_nothing_ended_are_named_and_not_counted() -> None:
    """A gate that passes says which attack it did not see."""
    skipped = unit(state="skipped", cell={"attack": "grain"})
    result = judge(audit_of(unit(), skipped), [criterion("exact>0.9")])
    assert result.passes and "in none of 1 row of attacks" in result.lines[0]
    assert result.lines[1].startswith("not judged") and "grain" in result.lines[1]


@pytest.mark.parametrize("state", ["failed", "skipped"])
def test_nothing_attacked_is_no_pass(state: str) -> None:
    result = judge(audit_of(unit(state=state), unit(cell={"attack": "random"})), [criterion("unique>0")])
    assert not result.passes and not result.breaches and "nothing follows" in result.lines[0]
    assert judge(audit_of(unit(state=state)), []).passes, "nobody asked"
    assert met(f"{state}>0", unit(state=state))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a criterion"),
        ("unique", "is not a criterion"),
        ("unique>", "is not a criterion"),
        ("unique=0", "is not a criterion"),
        ("unique>0 and exact>0", "is not a criterion"),
        ("__import__('os').system('x')>0", "is not a criterion"),
        ("uniqe>0", "did you mean 'unique'"),
        ("nobody>0", "choose one of unique"),
        ("unique.high>0", "of a rate"),
        ("exact.median>0", "of a rate"),
        ("exact>x", "not a number"),
        ("exact>nan", "finite"),
        ("unique<inf", "finite"),
        ("exact>5", "0..1"),
    ],
)
def test_what_is_no_criterion_is_one_clear_error(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="fail-on: ") as error:
        criterion(text)
    assert words in str(error.value) and repr(text) in str(error.value)


def test_every_quantity_is_documented() -> None:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in QUANTITIES)
    assert set(QUANTITIES) <= set(SCHEMA["$defs"]["row"]["required"])
    assert all(f"`{name}`" in page for name in (*RULES, GATE))


def knowing(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
    """Always the first embedded molecule, with a certificate: right for the first client, wrong for the second."""
    first = load_dataset("embedded", graphs=2, max_nodes=7).graphs[0]
    return Reconstruction((first,), 0.0, "match", certificate=Certificate("unique", 1, 7, False, 0.0, ("none",)))


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(ATTACKS, "knowing", Attack("knowing", knowing))
    file = tmp_path / "grid.toml"
    file.write_text(GRID, encoding="utf-8")
    return file


def run(file: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["audit", str(file), "--out", str(file.parent / "out"), *options])


def test_statuses_files_and_a_second_judgement(gated: Path) -> None:
    out = gated.parent / "out"
    wanted = "--results", str(out / "deep" / "results.json"), "--sarif", str(gated.parent / "deep" / "jgleak.sarif")
    failing = run(gated, "--fail-on", "unique>1", "--fail-on", "wrong>0", *wanted)
    assert failing.exit_code == 4, failing.output
    assert "gate failed: unique>1: 2 in" in failing.stderr and "gate failed: wrong>0: 1 in" in failing.stderr
    results = json.loads((out / "deep" / "results.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(results)
    assert results["gate"]["passes"] is False and [b["value"] for b in results["gate"]["breaches"]] == [2, 1]
    assert {row["attack"]: row["baseline"] for row in results["rows"]} == {"knowing": False, "random": True}
    assert results["rows"][0]["exact"] == {
        "mean": 0.5,
        "low": pytest.approx(stats.beta.ppf(0.025, 1, 2)),
        "high": pytest.approx(stats.beta.ppf(0.975, 2, 1)),
        "clients": 2,
        "graphs": 2,
    }
    assert len(results["units"]) == len(open_audit(out).units) == 4

    found = json.loads((gated.parent / "deep" / "jgleak.sarif").read_text())
    check_sarif(found, gated)
    levels = [(one["ruleId"], one["level"]) for one in found["runs"][0]["results"]]
    assert levels == [
        *(("certified-unique", "error"), ("exact-reconstruction", "warning"), ("listed-truth", "note")),
        *(("gate", "error"), ("gate", "error")),
    ]
    assert not any(one["record"]["name"] in json.dumps(found) for one in results["units"]), "no name of a graph"

    passing = run(gated, "--resume", "--fail-on", "unique>2")
    assert passing.exit_code == 0 and "gate passed: unique>2" in passing.stderr and "no proof" in passing.stderr
    assert run(gated, "--resume").exit_code == 0


def test_a_mistake_is_told_before_anything_runs(gated: Path) -> None:
    result = run(gated, "--fail-on", "uniqe>0")
    assert result.exit_code == 2 and "did you mean 'unique'" in result.stderr
    assert not (gated.parent / "out").exists()
    dry = CliRunner().invoke(app, ["audit", str(gated), "--dry-run", "--sarif", str(gated.parent / "x.sarif")])
    assert dry.exit_code == 2 and "dry-run" in dry.stderr
    judged = CliRunner().invoke(app, ["audit", str(gated), "--dry-run", "--fail-on", "unique>0"])
    assert judged.exit_code == 2 and "--fail-on" in judged.stderr


def check_sarif(document: dict[str, Any], specification: Path) -> None:
    """What SARIF 2.1.0 requires of such a document (sections 3.13 to 3.52), and what code hosts ask besides."""
    assert document["version"] == "2.1.0" and document["$schema"].endswith("sarif-schema-2.1.0.json")
    (one,) = document["runs"]
    driver = one["tool"]["driver"]
    assert driver["name"] == "jgleak" and driver["version"]
    assert all(isinstance(invocation["executionSuccessful"], bool) for invocation in one["invocations"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note", "none")
    fingerprints = []
    for result in one["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"] and result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == specification.as_posix()
        assert location["physicalLocation"]["region"]["startLine"] >= 1
        fingerprints.append(result["partialFingerprints"]["row/v1"])
    assert len(set(fingerprints)) == len(fingerprints)


def test_the_schema_refuses_what_is_no_document_of_results() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    valid = jsonschema.Draft202012Validator(SCHEMA).is_valid
    empty = {"format": "jgleak results 1", "version": "1", "name": "n", "planned": 0, "finished": 0, "rows": []}
    empty |= {"units": [], "gate": {"criteria": [], "passes": True, "breaches": []}}
    assert valid(empty)
    for change in ({"format": "jgleak results 2"}, {"planned": -1}, {"gate": {}}, {"rows": [{}]}, {"units": [{}]}):
        assert not valid(empty | change)


def test_lines_of_attack_are_records_of_the_schema() -> None:
    options = ["--graphs", "1", "--hidden", "8", "--max-nodes", "8", "--json"]
    result = CliRunner().invoke(app, ["attack", "empty", *options])
    record, _ = (json.loads(line) for line in result.stdout.splitlines())
    schema = {"$ref": "#/$defs/record", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(record)
    assert not jsonschema.Draft202012Validator(schema).is_valid(record | {"exact": 1.5})


@pytest.mark.slow
@pytest.mark.parametrize(("defended", "status"), [(False, 4), (True, 0)], ids=["fails", "passes"])
def test_the_shell_example_fails_and_passes(tmp_path: Path, defended: bool, status: int) -> None:
    """Glycine comes back with a certificate, and not where clients send signs, as the grid of the example has it."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "jgleak").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jgleak "$@"\n')
    (commands / "jgleak").chmod(0o755)
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    text, spec = (EXAMPLES / "gate.toml").read_text(encoding="utf-8"), tmp_path / "grid.toml"
    if not defended:
        text = text.replace('[[defense]]\ndefense = "sign"\n', "").replace("max_nodes = 6", "max_nodes = 5")
        text = text.replace("graphs = 2", "graphs = 1")
    spec.write_text(text, encoding="utf-8")
    arguments = ["sh", str(EXAMPLES / "gate.sh"), str(spec), str(tmp_path / "out")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert ("gate failed: unique>0: 1 in small molecules" in done.stderr) != defended
    check_sarif(json.loads((tmp_path / "out" / "jgleak.sarif").read_text()), spec)
    jsonschema.validate(json.loads((tmp_path / "out" / "results.json").read_text()), SCHEMA)


def test_the_workflow_example_is_one_and_its_criteria_are_read() -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"]["security-events"] == "write"
    steps = workflow["jobs"]["audit"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("name") == "audit"]
    words = command.split()
    assert words[:2] == ["jgleak", "audit"]
    criteria = [words[k + 1].strip('"') for k, word in enumerate(words) if word == "--fail-on"]
    assert [criterion(text).quantity for text in criteria] == ["unique", "exact"]
    (upload,) = [step for step in steps if "upload-sarif" in step.get("uses", "")]
    assert upload["with"]["sarif_file"] in words and "cancelled" in upload["if"]
