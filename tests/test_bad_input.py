"""Bad input: one line that says what is wrong, status 2, and no traceback, whatever is given."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.registry import ATTACKS
from jgleak.audit import database, lines
from jgleak.audit.results import open_audit
from jgleak.cli import app
from jgleak.cli.status import Terminated, mistakes
from jgleak.reading import read_text

QUICK = ("--graphs", "1", "--hidden", "8", "--max-nodes", "8")
LONG = "9" * 400
DEEP = "[" * 100_000
GRID = 'name = "small"\n[[data]]\ngraphs = 2\nmax_nodes = 8\n[[model]]\nhidden = 8\n[[attack]]\nattack = "empty"\n'


def jgleak(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    """The single line on standard error."""
    result = jgleak(*arguments)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), repr(result.exception)
    said = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and "Traceback" not in result.stderr, result.stderr
    assert len(said[0]) < 500, "no number is printed to its 400th digit"
    return said[0]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An observation."""
    folder = tmp_path_factory.mktemp("seen") / "out"
    result = jgleak("attack", "empty", *QUICK, "--out", str(folder))
    assert result.exit_code == 0, result.output
    return folder / "observations" / "000.safetensors"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--seed", str(2**70)), "seed: must lie in 0..2**32 - 1, got 1180591620717411303424"),
        (("--seed", LONG), "got 9999999999999999999999999999999999999999.. (400 characters)"),
        (("--seed", "-1"), "seed: must lie in 0..2**32 - 1, got -1"),
        (("--time-limit", "nan"), "time_limit: must be a positive number of seconds, got nan"),
        (("--time-limit", "0"), "time_limit: must be a positive number of seconds, got 0.0"),
        (("--time-limit", "-1"), "time_limit: must be a positive number of seconds, got -1.0"),
        (("--time-limit", "inf"), "time_limit: must be a positive number of seconds, got inf"),
    ],
)
def test_seeds_and_time_limits_of_both_commands(arguments: tuple[str, ...], hint: str, seen: Path) -> None:
    assert hint in refused("attack", "empty", *QUICK, *arguments)
    assert hint in refused("invert", str(seen), "--attack", "empty", "--n", "3", *arguments)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("check", "opnfgl-gin"), "model: did you mean 'openfgl-gin'? 'opnfgl-gin' is no deployed model"),
        (("check", "openfgl-gin", "--local-steps", "-1"), "local_steps: expected 0 (one gradient) or more, got -1"),
        (("attack", "empty", "--hidden", "0"), "hidden: must be at least 1, got 0"),
        (("attack", "empty", "--layers", "0"), "layers: must be at least 1, got 0"),
        (("audit", "docs"), "docs: is a folder; give a grid (*.toml, see docs/auditing.md)"),
    ],
)
def test_errors_name_what_was_written(arguments: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    more = ("--out", "unused") if arguments[0] == "audit" else ()
    assert hint in refused(*arguments, *more)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--hidden", str(10**12)), "hidden: must be below 2**31, got 1000000000000"),
        (("--hidden", LONG), "hidden: must be below 2**31, got 99999"),
        (("--hidden", str(10**8)), "the model would have about 20000000000000000 parameters"),
        (("--local-steps", LONG, "--protocol", "fedavg"), "local_steps: must be below 2**31"),
        (("--local-rate", "1e400", "--protocol", "fedavg"), "local_rate: must be above 0 and finite, got inf"),
        (("--graphs", LONG), "graphs: must be below 2**31"),
        (("--max-nodes", LONG), "max_nodes: must be below 2**31"),
        (("--defense", f"prune:{LONG}"), "prune"),
        (("--loss", f"ce+smoothing:{LONG}"), "smoothing"),
    ],
)
def test_numbers_that_nothing_can_hold(arguments: tuple[str, ...], hint: str) -> None:
    assert hint in refused("attack", "empty", *QUICK, *arguments)


@pytest.mark.parametrize(("option", "value"), [("steps", str(2**70)), ("steps", LONG), ("steps", "1e30")])
def test_options_count_in_32_bits(option: str, value: str) -> None:
    assert f"option '{option}': expected a whole number from 1" in refused(
        "attack", "dlg", *QUICK, "--know", "n", "--option", f"{option}={value}"
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"x = {DEEP}", "too many brackets within each other"),
        (
            GRID.replace("hidden = 8", f"hidden = {LONG}"),
            "not TOML: model[0].hidden has a whole number",
        ),
        (GRID.replace("hidden = 8", f"hidden = {10**12}"), "model[0].hidden: must be below 2**31"),
        (GRID + f"time_limit = {2**64}\n", "not TOML: attack[0].time_limit has a whole number of more than 64 bits"),
        (GRID + "9" * 5_000 + " = 1\n", "attack[0]."),
        (GRID + f"max_n = {'9' * 5_000}\n", "not TOML: a number has thousands of digits"),
        (f"seeds = [{2**70}]\n" + GRID, "not TOML: seeds[0] has a whole number of more than 64 bits"),
        ("grid = {}\n" + GRID, "grid: unknown; a grid has name"),
    ],
)
def test_grids(text: str, hint: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text)
    said = refused("audit", str(file), "--dry-run")
    assert hint in said and said.startswith(f"error: {file}: ")


@pytest.mark.parametrize("spoil", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")])
def test_a_byte_order_mark_and_other_ends_of_lines_are_read(spoil: Any, tmp_path: Path, seen: Path) -> None:
    def spoilt(name: str, text: str) -> str:
        (tmp_path / name).write_bytes(spoil(text.encode()))
        return str(tmp_path / name)

    assert read_text(spoilt("plain", "a\nb\n")) == "a\nb\n"
    assert jgleak("audit", spoilt("grid.toml", GRID), "--dry-run").exit_code == 0
    schema = spoilt("schema.json", '{"features": [\n{"name": "a", "values": [0, 1]}]}')
    assert "this space has 2 columns, the model takes" in refused("invert", str(seen), "--features", schema)
    document = seen.parents[1] / "reconstructions" / "000.json"
    content = json.loads(document.read_text()) | {"observation": str(seen)}
    assert jgleak("verify", spoilt("000.json", json.dumps(content))).exit_code == 1, "read, and does not hold"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, seen: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file, what in ((pipe, "a device or a pipe"), (Path("/dev/zero"), "a device or a pipe"), (tmp_path, "a folder")):
        for arguments in (("invert", str(file)), ("verify", str(file)), ("audit", str(file), "--dry-run")):
            assert f"{file}: is {what}" in refused(*arguments)
        assert f"{file}: is {what}" in refused("invert", str(seen), "--features", str(file))
    said = "a file of torch.save, which jgleak does not open, .*jgleak.interop.from_pyg.*docs/bring-your-own-model.md"
    damaged = tmp_path / "damaged"
    for first, of_torch in (
        (b"PK\x03\x04", True),
        (b"\x80\x02}q\x00(X\x05\x00", True),
        (b"\x80" + bytes(7) + b"{", False),
    ):
        damaged.write_bytes(first + bytes(4))
        assert bool(re.search(said, refused("invert", str(damaged)))) == of_torch
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "reconstruction.json")
    assert "exists and is not a file" in refused("invert", str(seen), "--out", str(tmp_path / "out"))


def document(seen: Path, tmp_path: Path, **fields: Any) -> str:
    """A reconstruction of the observation, with some fields of its own."""
    certificate = {"status": "unique", "size": 1, "n_max": 4, "n_known": False, "residual": 0.0, "conditions": ["a"]}
    graph = {"x": [[0] * 8] * 2, "edges": [[0, 1]], "y": 0}
    plain = {"format": "jgleak reconstruction 1", "observation": str(seen), "graphs": [graph | fields.pop("graph", {})]}
    plain |= {"certificate": certificate | fields.pop("certificate", {})} | fields
    (tmp_path / "found.json").write_text(json.dumps(plain))
    return str(tmp_path / "found.json")


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"graph": {"edges": [[0, 2**70]]}}, "expected whole numbers of at most 64 bits"),
        ({"graph": {"edges": [[0, 1.5]]}}, "expected whole numbers of at most 64 bits, got [[0, 1.5]]"),
        ({"graph": {"edge_class": [2**70]}}, "expected whole numbers of at most 64 bits"),
        ({"graph": {"x": [[2**70] * 8] * 2}}, "x: expected numbers"),
        ({"graph": {"x": [[0], [0, 1]]}}, "found.json lacks or breaks a field"),
        ({"graph": {"x": [[0.5] * 8] * 2}}, "found.json: x: node 0 has code 0.5"),
        ({"graph": {"y": 10**400}}, "y: expected a class"),
        ({"graph": {"y": {}}}, "y: expected a class"),
        ({"certificate": {"n_max": "x"}}, "certificate.n_max: expected a whole number, got 'x'"),
        ({"certificate": {"noise": float("nan")}}, "certificate.noise: expected a number that is finite, got nan"),
        ({"certificate": {"noise": 10**400}}, "certificate.noise: expected a number of at most 64 bits"),
        ({"certificate": {"conditions": 7}}, "certificate.conditions: expected a list, got 7"),
        ({"certificate": {"sure": True}}, "certificate.sure: unknown field"),
        ({"observation": None}, "observation: expected a word, got None"),
        ({"observation": "a/b"}, "found.json names a/b as its observation, from its own folder, and there is no such"),
        ({"loss": 7}, "loss: expected a word, got 7"),
        ({"loss": "x"}, "found.json: loss: unknown 'x'"),
        ({"space": 7}, "space: expected fields by name, got 7"),
        ({"graphs": 7}, "found.json lacks or breaks a field"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_reconstructions(fields: dict[str, Any], hint: str, seen: Path, tmp_path: Path) -> None:
    assert hint in refused("verify", document(seen, tmp_path, **fields))


@pytest.mark.usefixtures("unchecked")
def test_the_reconstruction_that_the_others_are_made_of_is_read(seen: Path, tmp_path: Path) -> None:
    assert jgleak("verify", document(seen, tmp_path)).exit_code == 1


def test_brackets_without_end(tmp_path: Path, seen: Path) -> None:
    (tmp_path / "deep.json").write_text(DEEP)
    for arguments in (("verify",), ("invert", str(seen), "--features")):
        assert "deep.json: not JSON that can be read: too many brackets" in refused(
            *arguments, str(tmp_path / "deep.json")
        )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "error: out of memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 4000 bytes"), "error: out of memory"),
        (OverflowError("int too large"), "error: a number is too large (int too large)"),
        (RecursionError(), "error: the file is nested too deeply"),
    ],
)
def test_what_no_check_foresaw_is_a_line_too(error: Exception, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="2"), mistakes():
        raise error
    assert capsys.readouterr().err.startswith(said)


def test_a_defect_stays_a_traceback() -> None:
    with pytest.raises(ZeroDivisionError), mistakes():
        raise ZeroDivisionError


def full(*arguments: Any, **named: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_folder_and_what_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid, out = tmp_path / "grid.toml", str(tmp_path / "out")
    grid.write_text(GRID)
    with monkeypatch.context() as patch:
        patch.setattr(database.os, "fsync", full)
        said = refused("audit", str(grid), "--out", out)
    assert f"out: cannot write to {out} (No space left on device); all units that had finished are safe" in said
    assert jgleak("audit", str(grid), "--out", out, "--resume").exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr("jgleak.audit.store.draw_set", full)
        said = refused("attack", "empty", *QUICK, "--out", str(tmp_path / "run"))
    assert f"cannot write to {tmp_path / 'run'} (No space left on device); 2 line(s) of results.jsonl are safe" in said
    kept = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert [sorted(json.loads(line))[0] for line in kept] == ["attack", "summary"]


def test_a_line_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = lines.Lines(tmp_path)
    kept.append({"a": 1})
    file = kept._file

    class Half:
        """A file on a disk with room for five bytes."""

        def write(self, line: bytes) -> int:
            return file.write(line[:5])

        tell, seek, truncate, close = file.tell, file.seek, file.truncate, file.close

    monkeypatch.setattr(kept, "_file", Half())
    with pytest.raises(ValueError, match=r"No space left on device\); 1 line\(s\) of results.jsonl are safe"):
        kept.append({"b": 2})
    monkeypatch.setattr(kept, "_file", file)
    kept.append({"c": 3})
    kept.close()
    assert (tmp_path / "results.jsonl").read_text() == '{"a": 1}\n{"c": 3}\n'


def test_lost_files_are_mentioned_by_resume_and_report(tmp_path: Path) -> None:
    grid, out = tmp_path / "grid.toml", tmp_path / "out"
    grid.write_text(GRID)
    assert jgleak("audit", str(grid), "--out", str(out)).exit_code == 0
    assert open_audit(out).lost == ()
    assert "are missing" not in jgleak("report", str(out)).output
    gone = [next((out / name).iterdir()) for name in ("observations", "reconstructions")]
    for file in gone:
        file.unlink()
    said = f"2 file(s) of finished units are missing: {gone[0].relative_to(out)} and 1 more"
    assert set(open_audit(out).lost) == {str(file.relative_to(out)) for file in gone}
    again = jgleak("audit", str(grid), "--out", str(out), "--resume")
    assert again.exit_code == 0 and " ".join(again.stderr.split()).count("2 file(s) of finished units are missing") == 1
    assert "2 file(s) of finished units are missing" in jgleak("report", str(out)).stderr
    assert "2 file(s) of finished units are missing" in (out / "report.md").read_text(), said


def test_a_store_without_its_grid_is_damaged(tmp_path: Path) -> None:
    grid, out = tmp_path / "grid.toml", tmp_path / "out"
    grid.write_text(GRID)
    assert jgleak("audit", str(grid), "--out", str(out)).exit_code == 0
    with closing(sqlite3.connect(out / "audit.sqlite")) as store:
        store.execute("DELETE FROM grid")
        store.commit()
    assert "lacks its grid; it is damaged" in refused("audit", str(grid), "--out", str(out), "--resume")
    assert "is not a readable store" in refused("report", str(out))


def test_sigterm_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        raise Terminated

    monkeypatch.setitem(ATTACKS, "stopped", Attack("stopped", stopped))
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID.replace('"empty"', '"stopped"'))
    result = jgleak("audit", str(grid), "--out", str(tmp_path / "out"))
    assert result.exit_code == 143 and f"{grid} --out {tmp_path / 'out'} --resume\n" in result.stderr
    assert result.stdout == "", "no table without a row"


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_command_once_politely_and_twice_at_once(number: signal.Signals, status: int) -> None:
    code = """
import sys, time
from jgleak.cli import app, main
from jgleak.cli.status import mistakes
@app.command()
def wait():
    with mistakes():
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            print("summary", flush=True)
            time.sleep({})
sys.argv = ["jgleak", "wait"]
main()
"""
    for times, after in ((1, 0), (2, 60)):
        command = [sys.executable, "-c", code.format(after)]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            child.send_signal(number)
            assert child.stdout.readline() == "summary\n"
            begun = time.monotonic()
            if times == 2:
                child.send_signal(number)
            _, errors = child.communicate(timeout=30)
        assert (child.returncode, errors) == (status, "interrupted\n" if times == 1 else "")
        assert time.monotonic() - begun < 20
