"""``jgleak recommender``: streams, exit statuses, files, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jgleak.audit.recommender.training import Epoch
from jgleak.cli import app

QUICK = ("--network", "gcn", "--neighbours", "0", "--epochs", "2")


def jgleak(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["recommender", *arguments], env=environment)


@pytest.mark.long
def test_json_lines_and_the_same_in_a_file(tmp_path: Path) -> None:
    options = ("--attack", "--users", "3", "--rounds", "1,2", "--json", "--out", str(tmp_path / "run"))
    result = jgleak(*QUICK, *options, FORCE_COLOR="1")  # as on a terminal: the spinner takes none of the lines
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [next(iter(r)) for r in records] == ["epoch", "epoch", "learnt", *(["user"] * 3 + ["leak"]) * 2]
    assert [r["leak"]["rounds"] for r in records[6::4]] == [1, 2]
    assert [r["user"]["done"] for r in records if "user" in r] == [1, 2, 3] * 2
    assert records[2]["learnt"]["specification"]["users"] == 3
    assert (tmp_path / "run" / "results.jsonl").read_text() == result.stdout
    assert "0/2" in result.stderr and "2/2" in result.stderr, "the progress of two epochs"
    assert "clients/s" in result.stderr and "What the server learns about 3 users" in result.stderr
    again = jgleak(*QUICK, "--out", str(tmp_path / "run"))
    assert again.exit_code == 2 and "holds an earlier run" in again.stderr


def test_tables_on_standard_output() -> None:
    result = jgleak("--method", "bias")
    assert result.exit_code == 0, result.output
    assert "offsets of users and items alone" in result.stdout and "the mean rating" in result.stdout
    assert "200 users, 60 items" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dataset", "netflix"), "no rating set 'netflix'; known are flixster"),
        (("--dataset", "movielens-1m", "--path", "nowhere"), "movielens-1m is not at nowhere"),
        (("--network", "sage"), "network: unknown 'sage'"),
        (("--defense", "clip-inff:0.1"), "did you mean 'clip-inf'"),
        (("--defense", "activations:0.1"), "a recommender defends its update"),
        (("--rounds", "1,many"), "rounds: expected numbers separated by commas"),
        (("--method", "fcf", "--attack"), "fcf only serves to compare errors"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = jgleak(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert message in line and "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_unwritable_folder_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = jgleak("--out", str(tmp_path / "file"))
    assert result.exit_code == 2 and "out: " in result.stderr and "epoch" not in result.stderr


def test_ctrl_c_keeps_the_epochs_that_are_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Iterator[Epoch]:
        yield Epoch(1, 1.0, 2.0, 100.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("jgleak.audit.recommender.run.run", interrupted)
    result = jgleak("--out", str(tmp_path / "run"))
    assert result.exit_code == 130
    assert f"interrupted; what has finished is in {tmp_path / 'run'}" in result.stderr
    (line,) = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert json.loads(line)["epoch"]["epoch"] == 1
