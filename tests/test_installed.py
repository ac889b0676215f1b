"""Attacks and defences that other installed packages bring."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from jgleak.attacks.registry import ATTACKS, get_attack
from jgleak.audit.entries import _looked_up
from jgleak.cli import app, options
from jgleak.defenses.registry import KINDS, parse

POINTS = """\
[jgleak.attacks]
mine = own_package:MINE
empty = own_package:MINE
other = own_package:MINE
gone = own_package:GONE
word = own_package:WORD
ended = own_package_that_ends:X
[jgleak.defenses]
halved = own_package:HALVED
text = own_package:WORD
"""
CODE = """\
import dataclasses
import optax
from jgleak.attacks.baselines import EMPTY
from jgleak.defenses.defense import Kind

MINE = dataclasses.replace(EMPTY, name="mine")
HALVED = Kind("halved", transform=lambda strength, key: optax.scale(0.5), plain=True)
WORD = "a word"
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with an attack and a defence, and entry points that are wrong in several ways."""
    described = tmp_path / "own_package-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1\n")
    (described / "entry_points.txt").write_text(POINTS)
    (tmp_path / "own_package.py").write_text(CODE)
    (tmp_path / "own_package_that_ends.py").write_text("raise SystemExit('no')")
    other = tmp_path / "twin_package-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: twin-package\nVersion: 1\n")
    (other / "entry_points.txt").write_text("[jgleak.attacks]\nmine = own_package:MINE\nword = twin:WORD\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_package", raising=False)


def jgleak(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_names_are_added_last_and_import_nothing() -> None:
    assert {*ATTACKS} > {"mine", "other", "gone", "word", "ended"} and len(ATTACKS) == len(list(ATTACKS))
    assert [*ATTACKS].index("mine") > [*ATTACKS].index("empty") and options.attacks("mi") == ["mine"]
    assert "halved" in KINDS and "mine" in ATTACKS and "mine" not in KINDS
    assert "own_package" not in sys.modules


def test_what_is_added_is_found_and_names_of_jgleak_stay() -> None:
    assert get_attack("mine").name == "mine" and ATTACKS["empty"].name == "empty"
    sent = parse("clip:10+halved").apply({"kernel": jnp.ones(2)}, key=jax.random.key(0))
    np.testing.assert_array_equal(sent["kernel"], [0.5, 0.5])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other", "'other' is own_package:MINE .* calls itself 'mine'; give both the same name"),
        ("gone", "'gone' is own_package:GONE .* cannot be imported: AttributeError"),
        ("word", "attack: 'word' is own_package:WORD and twin:WORD in .*; uninstall all but one"),
        ("ended", "'ended' is own_package_that_ends:X .* cannot be imported: SystemExit: no"),
        ("mien", "unknown 'mien'; did you mean 'mine'"),
    ],
)
def test_a_wrong_entry_point_is_one_clear_error(name: str, said: str) -> None:
    with pytest.raises((ValueError, KeyError), match=said):
        get_attack(name)
    result = jgleak("attack", name, "--graphs", "2")
    assert result.exit_code == 2 and "Traceback" not in result.output and result.stderr.count("error: ") == 1


def test_what_is_no_attack_or_no_defence_is_said_beside_other_mistakes() -> None:
    said = list(_looked_up({"attack": "other", "defense": "text", "loss": "hope"}))
    assert [one.partition(":")[0] for one in said] == [".attack", ".defense", ".loss"]
    assert said[1].startswith(".defense: 'text' is own_package:WORD")
    assert said[1].endswith("of type str; let the entry point name a Kind")


def test_a_broken_package_closes_its_own_attack_alone() -> None:
    found = json.loads(jgleak("check", "fedgraphnn-sage", "--json").stdout)
    closed = next(one for one in found["findings"] if "gone" in one["details"].get("attacks", ()))
    assert closed["level"] == "closed" and "gone: 'gone' is own_package:GONE" in closed["why"]


def test_the_command_line_lists_and_runs_what_is_added() -> None:
    listed = [line.split() for line in jgleak("list").stdout.splitlines()]
    assert ["mine", "own_package:MINE", "(installed", "package)"] in listed
    assert ["halved", "own_package:HALVED", "(installed", "package)"] in listed
    assert sum(line[0] == "empty" for line in listed) == 1, "jgleak's own"
    quick = ("--graphs", "2", "--hidden", "8", "--max-nodes", "8", "--defense", "halved", "--json")
    result = jgleak("attack", "mine", *quick)
    assert result.exit_code == 0, result.output
    assert [json.loads(line).get("attack") for line in result.stdout.splitlines()] == ["mine", "mine", None]
