"""The numbers of README and docs, measured again by one command: ``python -m benchmarks.documented_numbers``.

Not among them: the model made in PyTorch Geometric (``studies/pyg_inversion.py``, which needs it installed), and the
constants of the recommender (``studies/fedgnn_choice.py``, ``studies/factor_choice.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks.lib.machine import host
from benchmarks.lib.options import chosen
from benchmarks.lib.provenance import sources
from benchmarks.lib.records import read
from jgleak.version import __version__

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "documented_numbers"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Job(NamedTuple):
    """One command.

    Attributes:
      name: what ``--only`` takes, and the name of the file with its output.
      page: the page whose numbers it makes.
      command: arguments to Python, from the repository's root.
    """

    name: str
    page: str
    command: tuple[str, ...]


def _whole(paper: str, *more: str) -> tuple[str, ...]:
    return ("-m", "benchmarks.papers.tables", paper, *more, "--write", "--json")


def _table(paper: str, rows: str, attacks: str) -> tuple[str, ...]:
    return _whole(paper, "--rows", rows, "--attacks", attacks)


_NOISE = ("--graphs", "12", "--halvings", "5", "--seconds", "10", "--write")
_CENSUS = "census,census-plain,census-none,census-n,census-n-plain,census-n-none"
_GRAIN = "tox21-gcn,tox21-gat,tox21-gelu,tox21-node,citeseer-gcn,citeseer-gat"
_GUESSES = "random,empty,mean-adjacency"
_MODELS = "tox21-gat,tox21-gelu,tox21-node,tox21-l3,tox21-l4,tox21-trained"

JOBS = (
    Job("picture", "README.md", ("-m", "benchmarks.readme_picture")),
    Job("grain", "docs/results/molecules.md", _table("grain", _GRAIN, f"grain,{_GUESSES}")),
    Job(
        "census",
        "docs/results/molecules.md",
        _table("grain", "tox21-gcn,clintox-gcn,freesolv-gcn", f"{_CENSUS},{_GUESSES}"),
    ),
    Job("guesses", "docs/results/matching.md", ("-m", "benchmarks.studies.gsm0_guesses", "--write")),
    Job("census-models", "docs/results/molecules.md", _table("grain", _MODELS, "census")),
    Job("census-unseen", "docs/results/molecules.md", _table("grain", "tox21-unseen", f"grain,census,{_GUESSES}")),
    Job("rivals", "docs/results/matching.md", _table("grain", "tox21-gcn", "dlg,dlg-a,tableak,tableak-a")),
    Job("glg", "docs/results/glg.md", _whole("glg")),
    Job("fedgig", "docs/results/fedgig.md", _whole("fedgig")),
    Job("graphdlg", "docs/results/graphdlg.md", _whole("graphdlg")),
    Job("public-part", "docs/results/graphdlg.md", ("-m", "benchmarks.studies.public_part", "--write")),
    Job("defenses", "docs/results/defenses.md", _whole("defenses", "--time-limit", "20")),
    Job("plots", "docs/results/defenses.md", ("-m", "benchmarks.papers.defenses.plots")),
    Job(
        "noise",
        "docs/results/defenses.md",
        ("-m", "benchmarks.studies.noise_threshold", *_NOISE),
    ),
    Job("statistics", "docs/limits.md", ("-m", "benchmarks.studies.statistics_without_clients", "--write")),
    Job("noise-spans", "docs/noise.md", ("-m", "benchmarks.studies.noise_spans", "--write")),
    Job("half-precision", "docs/noise.md", ("-m", "benchmarks.studies.half_precision", "--write")),
    Job("encryption", "docs/recommender.md", ("-m", "benchmarks.speed.encryption_cost", "--write")),
    Job("sums", "docs/defenses.md", ("-m", "benchmarks.studies.secure_aggregation", "--write")),
    Job("recursion", "docs/graphdlg.md", ("-m", "benchmarks.speed.recursion_speed", "--graphs", "20", "--write")),
    Job("fedgnn", "docs/results/recommender.md", _whole("fedgnn")),
    Job("curves", "docs/results/recommender.md", ("-m", "benchmarks.papers.fedgnn.plots")),
    Job("filter", "docs/grain.md", ("-m", "benchmarks.speed.filter_throughput", "--out")),
    Job("large-molecule", "docs/grain.md", ("-m", "benchmarks.speed.large_molecule")),
    Job("matching", "docs/matching.md", ("-m", "benchmarks.speed.matching_throughput", "--out")),
)


@app.command()
def main(
    only: Annotated[str | None, typer.Option(help="Names, by commas; all by default.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what this code has measured already.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Name the jobs and their commands.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for what the commands print.")] = OUT,
) -> None:
    """Run what makes the numbers of README and docs, one after the other: many hours on two cores.

    What ended well is noted in ``done.jsonl`` and not run again by the same code (a digest of all sources is noted with
    it), so that the command can be stopped and repeated. A job that fails, or lacks its data, is reported, and the
    others run.
    """
    names = chosen(only, [job.name for job in JOBS], "--only")
    jobs = [job for job in JOBS if job.name in names]
    if listing:
        for job in jobs:
            typer.echo(f"{job.name:<22}{job.page:<32}python {' '.join(job.command)}")
        return
    out.mkdir(parents=True, exist_ok=True)
    done = set() if again else _done(out / "done.jsonl")
    failed = [job.name for job in jobs if job.name not in done and not _run(job, out)]
    if failed:
        typer.echo(f"failed: {', '.join(failed)}; what they printed is in {out}", err=True)
        raise typer.Exit(1)


def _done(file: Path) -> set[str]:
    return {entry["job"] for entry in read(file) if entry.get("sources") == sources()}


def _run(job: Job, out: Path) -> bool:
    typer.echo(f"{job.name}: python {' '.join(job.command)}", err=True)
    begun = time.monotonic()
    with (out / f"{job.name}.out").open("w", encoding="utf-8") as output:
        status = subprocess.run([sys.executable, *job.command], cwd=ROOT, stdout=output, check=False).returncode
    if status == 0 and not _lacks_data(out / f"{job.name}.out"):
        entry = {"job": job.name, "seconds": time.monotonic() - begun, "host": host()}
        entry |= {"version": __version__, "sources": sources()}
        with (out / "done.jsonl").open("a", encoding="utf-8") as notes:
            notes.write(json.dumps(entry) + "\n")
        return True
    return False


def _lacks_data(file: Path) -> bool:
    """Whether a table's job says of some row that its data are not there."""
    lines = file.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.startswith('{"row"')]
    return any("absent" in record and record["attack"] in (None, "rmse") for record in records)


if __name__ == "__main__":
    app()
