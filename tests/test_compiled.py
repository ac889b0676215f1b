"""Where commands keep what XLA compiled: the user's cache, what a variable says, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import pytest

from jgleak.cli import compiled
from jgleak.cli.compiled import LOCATIONS, OWN, VARIABLE, keep_compiled, leave_out_locations


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    variables = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    monkeypatch.setattr(os, "environ", variables)
    return variables


def test_the_users_cache_is_the_default(environment: dict[str, str], tmp_path: Path) -> None:
    keep_compiled()
    folder = Path(environment[OWN])
    assert folder.is_dir() and folder.is_relative_to(tmp_path)


def test_a_variable_says_where(environment: dict[str, str], tmp_path: Path) -> None:
    environment[VARIABLE] = str(tmp_path / "mine")
    keep_compiled()
    assert Path(environment[OWN]).parent == tmp_path / "mine"


@pytest.mark.parametrize("word", ["off", "OFF"])
def test_nothing_is_kept_on_demand(environment: dict[str, str], tmp_path: Path, word: str) -> None:
    environment[VARIABLE] = word
    keep_compiled()
    assert OWN not in environment and not list(tmp_path.iterdir())


def test_jaxs_own_variable_comes_first(environment: dict[str, str], tmp_path: Path) -> None:
    environment |= {OWN: "elsewhere", VARIABLE: str(tmp_path / "mine")}
    keep_compiled()
    assert environment[OWN] == "elsewhere" and not (tmp_path / "mine").exists()


def test_a_folder_that_cannot_be_made_is_no_mistake(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment[VARIABLE] = str(tmp_path / "file")
    keep_compiled()
    assert OWN not in environment


def test_of_a_folder_that_is_full_the_newer_half_stays(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment[VARIABLE] = str(tmp_path)
    keep_compiled()
    folder = Path(environment.pop(OWN))
    for age in range(10):
        (folder / str(age)).write_bytes(bytes(10))
        os.utime(folder / str(age), (1000 - age, 1000 - age))
    monkeypatch.setattr(compiled, "LARGEST", 100)
    keep_compiled()
    assert len(list(folder.iterdir())) == 10
    environment.pop(OWN)
    monkeypatch.setattr(compiled, "LARGEST", 80)
    keep_compiled()
    assert sorted(file.name for file in folder.iterdir()) == ["0", "1", "2", "3"]


def test_no_tracebacks_unless_asked_for(environment: dict[str, str]) -> None:
    leave_out_locations()
    assert environment[LOCATIONS] == "0"
    environment[LOCATIONS] = "10"
    leave_out_locations()
    assert environment[LOCATIONS] == "10"


def test_jax_knows_the_variable() -> None:
    assert LOCATIONS.lower() in jax.config.values
