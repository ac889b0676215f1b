"""Pages that are made as a whole, of records or of the code, and pages of results that have no records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple

from benchmarks import cli_page, public_api
from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers import page
from benchmarks.papers.registry import PAPERS


class Generated(NamedTuple):
    """One page.

    Attributes:
      page: from the repository's root.
      made: what its records, or the code, make today.
      resampled: whether that takes seconds, since clients are drawn again for intervals.
    """

    page: str
    made: Callable[[], str]
    resampled: bool = False


def _results(name: str, render: Callable[[Sequence[Record]], str], resampled: bool = False) -> Generated:
    """``results/NAME.md``, made of ``results/NAME.jsonl``."""
    return Generated(f"benchmarks/results/{name}.md", lambda: render(read(RESULTS / f"{name}.jsonl")), resampled)


def _by(module: str) -> Callable[[Sequence[Record]], str]:
    """``document`` of a module, which is imported when the page is made."""

    def render(records: Sequence[Record]) -> str:
        return import_module(f"benchmarks.{module}").document(records)

    return render


GENERATED = (
    *(
        _results(name, partial(paper.document, paper.rows), name in ("grain", "fedgig", "graphdlg", "defenses"))
        for name, paper in PAPERS.items()
    ),
    *(
        _results(name, _by(f"studies.{name}"), name == "public_part")
        for name in (
            "batches",
            "deployed",
            "deployed_models",
            "facts",
            "few_vectors",
            "file_order",
            "local_steps",
            "public_part",
            "secure_aggregation",
            "trained_layers",
            "what_leaks",
        )
    ),
    _results("grain_figures", _by("papers.grain.figures")),
    _results("glg_neighbours", _by("papers.glg.neighbours")),
    _results("accelerator", _by("speed.accelerator")),
    _results("recursion", _by("speed.recursion_speed")),
    Generated("docs/papers.md", page.document),
    Generated("docs/cli.md", cli_page.document),
    Generated("docs/api/index.md", public_api.document),
    Generated("tests/public_api.txt", public_api.signatures),
)

WITHOUT_RECORDS: Mapping[str, str] = {
    "filter_throughput": "`speed.filter_throughput --out` writes the page alone; run it again to compare",
    "matching_throughput": "`speed.matching_throughput --out` writes the page alone; run it again to compare",
}
"""Pages of ``results/`` whose numbers are stored nowhere else, and why."""
