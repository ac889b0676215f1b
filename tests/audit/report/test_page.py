"""The pages: well formed, self-contained, escaped, and the same bytes for the same store."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jax
import pytest
from models import flat

from jgleak.attacks.attack import Reconstruction
from jgleak.audit.certified import write
from jgleak.audit.report.gallery import TOGETHER, gallery
from jgleak.audit.report.plots import sets_figure
from jgleak.audit.report.render import render_html, render_markdown, write_report
from jgleak.audit.report.rows import rows
from jgleak.audit.report.tables import leaks, sets
from jgleak.audit.results import Audit, Unit
from jgleak.datasets import load
from jgleak.federated import fedsgd, save

from .made import audit, certificate, grid, unit

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "br", "wbr"}


class Tags(HTMLParser):
    """Checks that tags are balanced; keeps tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _check(page: str) -> Tags:
    """Balanced, nothing that runs, nothing that is fetched, every link within the page."""
    tags = Tags(page)
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "iframe", "object", "embed", "link", "img", "image", "form"}
    ids = {attributes["id"] for _, attributes in tags.seen if "id" in attributes}
    for _, attributes in tags.seen:
        assert not any(name.startswith("on") or name in ("src", "srcset", "xlink:href") for name in attributes)
        link = attributes.get("href")
        assert link is None or link[1:] in ids
    assert not re.search(r"https?://|url\(|@import", page)
    return tags


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files beside a store, of two clients: one rebuilt exactly, one with nothing found."""
    place = tmp_path_factory.mktemp("audit")
    for name in ("truths", "reconstructions", "observations"):
        (place / name).mkdir()
    data = load("embedded", graphs=2, max_nodes=6)
    model = flat(in_features=data.space.width, hidden=4, layers=1, readout="pooled", readout_widths=())
    params = model.initial(key=jax.random.key(0))
    for client, graph in enumerate(data.graphs):
        name = unit(client).hash
        observation = place / "observations" / f"{name}.safetensors"
        save(observation, fedsgd(model, params, [graph], data.space, loss="bce"), data.space)
        found = Reconstruction((graph,) if client == 0 else (), 0.0 if client == 0 else None, "match")
        write(place / "reconstructions" / f"{name}.json", found, observation)
        truth = {"x": graph.x.tolist(), "edges": graph.edges.tolist(), "y": None, "name": graph.name}
        (place / "truths" / f"{name}.json").write_text(json.dumps(truth))
    return place


@pytest.mark.parametrize(
    "one",
    [
        audit(),
        audit(planned=5),
        audit(unit(0, status="failed", reason="Traceback\nValueError: no"), unit(1, status="skipped", reason="no")),
        audit(unit(0)),
        audit(unit(0, edges=None, gradient_distance=None, exact=False, truth_in_set=False, stop="time")),
        grid(),
    ],
    ids=["empty", "not begun", "nothing ended", "one client", "nothing found", "grid"],
)
def test_every_audit_makes_a_sound_page(one: Audit) -> None:
    _check(render_html(one))
    assert render_markdown(one).startswith("# made up")


def test_same_store_same_bytes() -> None:
    assert render_html(grid()) == render_html(grid())
    assert render_markdown(grid()) == render_markdown(grid())


def test_the_first_screen_says_that_an_audit_is_not_finished() -> None:
    done, begun = audit(unit(0)), audit(unit(0), planned=3)
    for made in (render_html, render_markdown):
        head = made(begun).partition("What to do")[0]
        assert "The audit is not finished: 1 of 3 planned attacks are in." in head
        assert "not finished" not in made(done)
    assert "are in.\n\nFor one person" in render_markdown(begun)


def test_pages_say_no_more_of_intervals_than_holds_for_all() -> None:
    """Those of rates where every client has 0 or 1 are no bootstrap intervals."""
    for page in (render_html(grid()), render_markdown(grid())):
        assert "95" in page and "interval" in page and "bootstrap" not in page


def test_the_table_holds_the_numbers_of_the_records() -> None:
    """Means and intervals in the page's and the Markdown's rows, as the estimates are, to three digits."""
    one = grid()
    markdown = [line for line in render_markdown(one).splitlines() if line.startswith("| ")]
    cells = [text.strip() for text in Tags(render_html(one)).text]
    for leak in leaks(rows(one)):
        line = next(text for text in markdown if text.startswith(f"| {leak.row.attack} | {leak.row.under} |"))
        for name in ("exact", "truth in set", "GSM-1", "edge AUC, aligned"):
            estimate = leak.estimates[name]
            if estimate is not None:
                interval = f"{estimate.low:.3f}–{estimate.high:.3f}"
                assert f"{estimate.mean:.3f} ({interval})" in line
                assert f"{estimate.mean:.3f}" in cells and interval in cells


def test_hostile_names_come_out_as_text(folder: Path) -> None:
    """Names of clients, labels of the grid, reasons and TOML are text wherever they stand."""
    names = {"data": EVIL, "model": f"'\"{EVIL}", "attack": EVIL, "defense": EVIL, "kind": "dlg"}
    spoilt = unit(0)._replace(cell=unit(0, data=EVIL).cell, record=unit(0, name=EVIL).record)
    units = [
        unit(5, **names, certificate=certificate() | {"conditions": [EVIL]}),
        unit(6, **names, status="failed", reason=EVIL),
    ]
    units = [one._replace(specification=one.specification | {"defense": EVIL}) for one in units]
    one = audit(spoilt, *units, name=EVIL, text=f"``` {EVIL}\n</code></pre>")
    page = render_html(one, folder)
    tags = _check(page)
    assert EVIL not in page and EVIL in "".join(tags.text)
    shown = [attributes["aria-label"] for tag, attributes in tags.seen if tag == "svg" and "aria-label" in attributes]
    assert f"the private graph {EVIL}" in shown
    markdown = render_markdown(one)
    before, fence, block = markdown.partition("````toml\n")
    assert fence and EVIL not in before and block.endswith("</code></pre>\n````")


def test_unicode_names(folder: Path) -> None:
    page = render_html(audit(unit(0, name="Übung 分子 🧪"), name="Prüfung"), folder)
    assert "Übung 分子 🧪" in "".join(Tags(page).text) and "Prüfung" in page


def test_gallery_shows_truth_beside_reconstruction(folder: Path) -> None:
    """An exact pair, a client without a reconstruction, one whose files are gone; and none of them on request."""
    one = audit(unit(0), unit(1, exact=False, stop="time"), unit(2))
    page = render_html(one, folder)
    _check(page)
    assert page.count('class="exact"') == 1 and "nothing recovered (time)" in page
    assert "no picture: its files are missing or broken" in page
    assert "molecule 0" in page and "shows private graphs" in page
    bare = render_html(one)
    assert "molecule 0" not in bare and 'id="gallery"' not in bare and "shows private graphs" not in bare


def test_gallery_shows_the_first_update_of_several_graphs_whole(folder: Path) -> None:
    units = [unit(client)._replace(specification={**unit(0).specification, "batch_size": 4}) for client in range(6)]
    (wall,) = gallery(folder, rows(audit(*units)))
    assert [pair.name for pair in wall.pairs] == [f"molecule {client}" for client in range(4)]
    assert "graph 1 of 4 of one update" in wall.pairs[0].caption
    many = [one._replace(specification={**one.specification, "batch_size": 20}) for one in map(unit, range(20))]
    assert len(gallery(folder, rows(audit(*many)))[0].pairs) == TOGETHER


def test_gallery_shows_one_recorded_update_and_not_several_as_one(folder: Path) -> None:
    """Every recorded client begins at 0, and each may be of another number of graphs."""

    def of_file(client: int, name: str, batch: int) -> Unit:
        one = unit(client)
        cell, specification = {**one.cell, "file": name}, {**one.specification, "batch_size": batch}
        return one._replace(hash=f"{one.hash}-{name}", cell=cell, specification=specification)

    pairs = [of_file(client, name, 2) for name in ("a", "b") for client in range(2)]
    single = [of_file(0, name, 1) for name in ("c", "d")]
    for units, names in (([*pairs, *single], ["molecule 0", "molecule 1"]), ([*single, *pairs], ["molecule 0"] * 2)):
        (wall,) = gallery(folder, rows(audit(*units)))
        assert [pair.name for pair in wall.pairs] == names


def test_a_broken_file_spoils_its_own_picture_only(folder: Path, tmp_path: Path) -> None:
    for name in ("truths", "reconstructions", "observations"):
        (tmp_path / name).mkdir()
        for file in (folder / name).iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    (tmp_path / "truths" / f"{unit(0).hash}.json").write_text('{"x": [[0')
    page = render_html(audit(unit(0), unit(1, exact=False)), tmp_path)
    assert page.count("no picture: its files are missing or broken") == 1


@pytest.mark.parametrize("name", ["report.pdf", "report"])
def test_the_suffix_chooses_the_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="suffix"):
        write_report(tmp_path, tmp_path / name)


def test_no_store_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="audit"):
        write_report(tmp_path, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_histograms_have_the_same_columns_and_none_beside_all_sets() -> None:
    """From the smallest set to the largest of any row; a row without a certificate of a size has a gap there."""
    narrow = [unit(i, certificate=certificate("k_graphs", 2), defense="clip:1") for i in range(2)]
    wide = [unit(0, certificate=certificate("k_graphs", 8)), unit(1)]
    first, second = (plot.svg for plot in sets_figure(sets(rows(audit(*wide, *narrow)))).plots)
    for svg, columns in ((first, ["2", "3–5", "6–10", "none"]), (second, ["2", "3–5", "6–10"])):
        names = re.findall(r'y="166.0" class="tick middle">([^<]*)<', svg)
        assert names == columns
    assert sets_figure([]).plots == []


def test_one_client_has_its_noun() -> None:
    """A measure that only one of two clients has says so."""
    page = render_html(audit(unit(0), unit(1, gradient_distance=None)), None)
    assert "<br>1 graph</small>" in page and "1 graphs" not in page


def test_a_name_is_broken_after_a_colon_or_a_plus_and_not_within_a_number() -> None:
    page = render_html(audit(unit(0), unit(0, defense="clip:0.1+gaussian:1e-3")), None)
    whole = "<wbr>".join(f'<span class="whole">{piece}</span>' for piece in ("clip:", "0.1+", "gaussian:", "1e-3"))
    assert f"<small>{whole}</small>" in page
