"""Is an audit that was killed and resumed the same as one that was not?

``python -m benchmarks.studies.audit_resume SPEC.toml FOLDER --kills 5`` runs ``jgleak audit`` once without a break into
FOLDER/whole, and once into FOLDER/broken, killed with SIGKILL at random moments of its work and resumed every time.
Then it compares the two unit by unit: rows and files, times of the clock left out. With ``--ray 2`` it also runs the
audit on a Ray cluster of two workers, into FOLDER/ray: the process that was started is killed once, and in the resumed
run one of the workers. That is compared too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from jgleak.audit.results import DATABASE, Unit, open_audit

COMMAND = (sys.executable, "-c", "from jgleak.cli import main; main()", "audit")
FOLDERS = ("observations", "reconstructions", "truths")


def timeless(value: Any) -> Any:
    """Plain data without what differs from run to run: seconds, and how much was compiled."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not k.startswith("seconds") and k not in ("compilations", "elapsed")}
        return {key: timeless(entry) for key, entry in kept.items()}
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def contents(folder: Path) -> dict[str, Any]:
    """Every unit of an audit by its hash: its row without times, and digests of its files."""
    units = open_audit(folder).units
    assert len({unit.hash for unit in units}) == len(units)
    return {unit.hash: (_row(unit), {name: _digest(folder / name, unit.hash) for name in FOLDERS}) for unit in units}


def _row(unit: Unit) -> dict[str, Any]:
    row = unit._asdict()
    del row["finished_at"]
    return timeless(row)


def _digest(folder: Path, stem: str) -> str | None:
    files = list(folder.glob(f"{stem}.*"))
    return hashlib.sha256(files[0].read_bytes()).hexdigest() if files else None


def start(specification: Path, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """``jgleak audit`` in a process of its own."""
    command = [*COMMAND, str(specification), "--out", str(folder), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def finished(folder: Path) -> int:
    """How many units have a row; 0 as long as there is no store."""
    if not (folder / DATABASE).is_file():
        return 0
    try:
        with closing(sqlite3.connect(folder / DATABASE)) as store:
            return store.execute("SELECT count(*) FROM units").fetchone()[0]
    except sqlite3.OperationalError:  # its first transaction is under way
        return 0


def killed(specification: Path, folder: Path, aim: int, delay: float, *options: str) -> tuple[int, int]:
    """Start or resume an audit and kill it ``delay`` seconds after it has ``aim`` units; units before and after."""
    before = finished(folder)
    process = start(specification, folder, "--resume", *options)
    while process.poll() is None and finished(folder) < aim:
        time.sleep(0.05)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return before, finished(folder)


def worker_killed(specification: Path, folder: Path, aim: int, *options: str) -> tuple[int, int]:
    """Resume an audit on Ray and kill a worker that is at a task once ``aim`` units are there; how many were, and the
    exit status."""
    process = start(specification, folder, "--resume", *options)
    while process.poll() is None:
        if finished(folder) >= aim and (tasks := at_task(process.pid)):
            os.kill(tasks[0], signal.SIGKILL)
            break
        time.sleep(0.05)
    return finished(folder), process.wait()


def at_task(root: int) -> list[int]:
    """Processes below ``root`` that Ray calls after the task they work at (Linux)."""
    parents, names = dict[int, int](), dict[int, bytes]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            names[int(folder.name)] = (folder / "cmdline").read_bytes()
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it has ended
            continue
    below = {root}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(pid for pid in below if names.get(pid, b"").startswith(b"ray::attempt"))


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Hashes that only one has, or that differ, in words."""
    missing = [f"{key}: only in one of them" for key in one.keys() ^ other.keys()]
    return missing + [
        f"{key}: {one[key]} and {other[key]}" for key in one.keys() & other.keys() if one[key] != other[key]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specification", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", type=int, default=0, metavar="WORKERS", help="also on a Ray cluster of so many")
    given = parser.parse_args()
    whole, broken, rng = given.folder / "whole", given.folder / "broken", random.Random(given.seed)
    begun = time.monotonic()
    status = start(given.specification, whole).wait()
    if not (whole / DATABASE).is_file():
        return status
    planned = open_audit(whole).planned
    print(
        f"unbroken: {finished(whole)} of {planned} units, status {status}, {time.monotonic() - begun:.0f} s", flush=True
    )
    begun = time.monotonic()
    for aim in sorted(rng.sample(range(1, planned), given.kills)):
        before, after = killed(given.specification, broken, aim, rng.uniform(0.0, 2.0))
        print(f"killed with {after} units ({before} when it began)", flush=True)
    status = start(given.specification, broken, "--resume").wait()
    print(
        f"resumed: {finished(broken)} of {planned} units, status {status}, {time.monotonic() - begun:.0f} s", flush=True
    )
    one = contents(whole)
    out_of_time = sum(row["record"].get("stop") == "time" for row, _ in one.values())
    wrong = differences(one, contents(broken))
    print(f"stopped by the clock: {out_of_time}; units that differ: {len(wrong)}", flush=True)
    if given.ray:
        begun, spread = time.monotonic(), given.folder / "ray"
        engine = ("--engine", "ray", "--workers", str(given.ray))
        _, after = killed(given.specification, spread, planned // 3, rng.uniform(0.0, 2.0), *engine)
        at, status = worker_killed(given.specification, spread, max(after, planned // 2), *engine)
        print(f"on Ray: killed with {after} units, a worker with {at}, then status {status}", flush=True)
        if finished(spread) < planned:
            status = start(given.specification, spread, "--resume", *engine).wait()
        seconds = time.monotonic() - begun
        other = differences(one, contents(spread))
        print(f"on Ray: {finished(spread)} of {planned} units, status {status}, {seconds:.0f} s; differ: {len(other)}")
        wrong += other
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
