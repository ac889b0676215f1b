"""The recommender's records as a page: errors beside the paper's, leaks, and both against the strength of a defence."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lib.page import markdown
from benchmarks.lib.records import Record
from benchmarks.papers.fedgnn.rows import (
    CLIPPING,
    CURVE,
    DATASETS,
    KINDS,
    LAMBDAS,
    LEAK,
    NEIGHBOURS,
    PSEUDO,
    RMSE,
    SEEDS,
    TRAFFIC,
    Row,
    grid,
)

Line = tuple[str, ...]

HEAD = ("", *(f"{title}{part}" for title in DATASETS.values() for part in ("", ", paper")))

DIGITS = {"flixster": 3, "douban": 3, "yahoo-music": 2}

ABOUT = """\
Written by `python -m benchmarks.papers.tables fedgnn --write`; do not edit. RMSE of predicted ratings on the test part
of the published splits, lower is better; *paper* is what Wu et al. (2022) print in Table 3, means of ten runs. Ours are
single runs with seed 0; means of ten seeds, where measured, stand in a table of their own. All rows learn from nine
tenths of the training ratings; the last tenth says which epoch counts, and chose the constants
(`jgleak/audit/recommender/tuned.py`); those under a defence are the same for all sets, and were chosen on Douban with
seed 1 (`studies/fedgnn_choice.py`, candidates in `fedgnn_choice.jsonl`) without a test rating; what was tried at all
goes back to a search that had test errors on the screen. The paper's line is with its defences.

- **The mean of the training ratings** is the error of that one number for every rating.
- **The paper's constants** (descent at 0.01, three epochs), in our reading of what the paper leaves open, do not learn
  here. On Douban every prediction ends at the lowest rating, under every seed.
- **Tuned without defence** starts from the offsets of users and items (ridge regression) and leaves them alone.
- **Tuned with the paper's defences** (entries clipped to 0.1, Laplace noise of scale 0.2, 1,000 pseudo items) starts
  from zeros: the offsets' exchange is not protected. It is a variant of ours: the user's own offset stays on the
  device, the loss is a sum, embeddings have biases. On Flixster and YahooMusic it stops after epochs 2 and 1, at the
  error of the user's own offset; only on Douban are items' offsets learnt through the noise.
- **Offsets alone** have no graph, no embedding and no privacy. What does not beat them has learnt nothing from the
  graph.
- **Neighbours** join the graphs after two epochs; rows whose best epoch is 1 or 2 are of models without them.
- **FCF and FedMF** have no offsets, and send their gradients without noise. The penalty and the size of the initial
  factors are chosen by `studies/factor_choice.py` (candidates in `factor_choice.jsonl`). From a deviation of 0.3, as
  they were before, both were worse on YahooMusic than the mean (22.83 and 22.73).
- MovieLens is not among the rows: its files have to be fetched by hand."""

LEAKS = """\
Tuned GAT on Douban, trained openly; then each user sends 1, 5 and 20 updates at these parameters under each
protection. Its best epoch is before the graph expansion, so there are no neighbours in these graphs. The attack
knows the model, the protection, the levels of ratings and how often each occurs. *AUC*: real items told from pseudo
items (- where only real items are sent). *Precision*: of as many items as the user rated, those ranked first.
*Rating*: RMSE in levels over the whole history, where items that were not found count with the mean rating.
Square brackets: 95 % intervals over users, where they are wider than what is printed. Round ones: guessing
(any order; one rating for everything).
*Trained under it*: clipped to 0.1, lambda = 0.2, M = 1,000, at the parameters of the GAT that was trained so, whose
loss is a sum, whose users keep their offset, and whose graphs have neighbours that the attack does not know."""

CURVES = """\
RMSE: tuned GAT trained under each protection, Douban; at most 100 epochs, which little protection uses up (the epochs
are below). Leaks: at the one openly trained model, as above, {rounds} updates. `fedgnn_curves.svg` shows both, and
fewer updates."""

SECOND = """\
Figure 4 on Douban: every network with and without anonymous neighbours, entries clipped to 0.1, lambda = 0.2, no pseudo
items, at most 100 epochs. Neighbours' embeddings are fixed from the expansion on, or trainable: learnt on, and sent.
One seed: two trainings that differ in the seed alone are not known to be closer than these."""

CLIPPED = """\
Figure 5 on Douban: entries clipped to other thresholds than 0.1, whose errors are under *Against lambda and M*; 1,000
pseudo items, one seed. Rates are those that were chosen at 0.1."""

REPEATED = """\
Means over so many seeds, with 95 % intervals over the seeds, which draw first weights, noise and the ratings
that are held back. The seed of the choices, 1, is one of them."""

SENT = """\
Thousands of numbers in one update, the mean over users with training ratings and the most of any user; as many come
back. *Rated items alone*: the same model without pseudo items, which shows the history. *All items*: an update of the
whole table, as FedMF's, which hides the history completely. Counted, not trained: a number takes four bytes as
float32."""

STRONGEST = 20
"""Updates seen in the curves."""


def lines(rows: Sequence[Row], records: Sequence[Record]) -> list[Line]:
    """The table of errors, and one line a point of the curves."""
    errors = {r["row"]: r for r in records if r["attack"] == RMSE.name}
    out = _constant(list(errors.values()))
    for kind in KINDS:
        names = {dataset: f"{dataset}-{kind.name}" for dataset in DATASETS}
        if any(name in errors for name in names.values()):
            cells = []
            for dataset, name in names.items():
                digits = DIGITS[dataset]
                cells += [_error(errors.get(name), digits), _printed(kind.printed.get(dataset), digits)]
            out.append((kind.title, *cells))
    for row in rows:
        if row.kind is None and row.name in errors:
            cells, dataset = [""] * (2 * len(DATASETS)), row.experiment.dataset
            cells[2 * list(DATASETS).index(dataset)] = _error(errors[row.name], DIGITS[dataset])
            out.append((row.title, *cells))
    return out


def _constant(errors: Sequence[Record]) -> list[Line]:
    """The error of the training ratings' mean, which every record of the data set has."""
    means = {r["specification"]["dataset"]: r["mean_test"] for r in errors if "mean_test" in r}
    shown = (f"{means[dataset]:.{DIGITS[dataset]}f}" if dataset in means else "-" for dataset in DATASETS)
    return [("the mean of the training ratings", *(cell for number in shown for cell in (number, "")))] if means else []


def leak_lines(records: Sequence[Record]) -> list[Line]:
    """One line a protection: AUC, precision and rating error for every number of updates."""
    records = sorted(records, key=lambda r: r["row"])  # the open model first
    found = [leak for r in records if r["attack"] == LEAK.name for leak in r["leaks"]]
    titles = list(dict.fromkeys(leak["title"] for leak in found))
    out: list[Line] = []
    for title in titles:
        mine = [leak for leak in found if leak["title"] == title]
        out.append((title, *(_leak(leak, name) for name in ("auc", "precision_at_size", "rmse_all") for leak in mine)))
    return out


def curves(
    rows: Sequence[Row], records: Sequence[Record], updates: int = STRONGEST
) -> dict[str, list[tuple[float, Record]]]:
    """Against ``lambda`` and ``M``: the strength, and what was measured there: ``error`` (test RMSE) and the leaks."""
    errors = {
        (row.scale if row.scale is not None else 0.2, row.experiment.pseudo): r["test"]
        for row in rows
        for r in records
        if r["attack"] == RMSE.name
        and r["row"] == row.name
        and row.experiment.dataset == CURVE
        and (row.kind is None or row.name == f"{CURVE}-gat-defended")
    }
    means: dict[tuple[float | None, int], Record] = {}
    for r in records:
        if r["attack"] == LEAK.name:
            for leak in r["leaks"]:
                if leak["rounds"] == updates and leak["title"] in grid():
                    means[grid()[leak["title"]]] = {name: value["mean"] for name, value in leak["means"].items()}
    axes = {"lambda": [(scale, (scale, 1000)) for scale in LAMBDAS], "M": [(float(m), (0.2, m)) for m in PSEUDO]}
    return {
        name: [
            (strength, {**({"error": errors[point]} if point in errors else {}), **means.get(point, {})})
            for strength, point in points
            if point in errors or point in means
        ]
        for name, points in axes.items()
    }


def document(rows: Sequence[Row], records: Sequence[Record]) -> str:
    """The whole page."""
    done = {r["row"] for r in records if r["attack"] == RMSE.name}
    points = {row.title for row in rows if row.kind is None}
    idle = ", ".join(f"`{row.name}`" for row in rows if row.name not in done)
    leaked = leak_lines(records)
    parts = [
        "# FedGNN, reproduced",
        ABOUT,
        "## Errors",
        markdown(HEAD, [line for line in lines(rows, records) if line[0] not in points]),
        f"Not trained: {idle}." if idle else "",
        *_seed_parts(records),
        *(("## What updates show", LEAKS, markdown(_leak_head(records), leaked)) if leaked else ()),
        *_single_parts("Neighbours", SECOND, NEIGHBOURS, rows, records),
        *_single_parts("Clipping", CLIPPED, CLIPPING, rows, records),
        *_curve_parts(rows, records),
        *_traffic_parts(rows, records),
        "## How it was run",
        markdown(
            RUN_HEAD,
            [_run(r) for r in records if r["attack"] == RMSE.name],
        ),
        _about(records),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _seed_parts(records: Sequence[Record]) -> list[str]:
    found = {r["row"]: r for r in records if r["attack"] == SEEDS.name}
    table = []
    for kind in KINDS:
        mine = {dataset: found.get(f"{dataset}-{kind.name}") for dataset in DATASETS}
        if any(mine.values()):
            each = ((_repeated(r, DIGITS[d]), _printed(kind.printed.get(d), DIGITS[d])) for d, r in mine.items())
            table.append((kind.title, *(cell for cells in each for cell in cells)))
    return ["## Ten seeds", REPEATED, markdown(HEAD, table)] if table else []


def _repeated(record: Record | None, digits: int) -> str:
    if record is None:
        return "-"
    low, mean, high = (f"{record['means']['RMSE'][bound]:.{digits}f}" for bound in ("low", "mean", "high"))
    return f"{mean} [{low}, {high}], {len(record['tests'])}"


def _single_parts(title: str, about: str, kind: str, rows: Sequence[Row], records: Sequence[Record]) -> list[str]:
    errors = {r["row"]: r for r in records if r["attack"] == RMSE.name}
    table = [
        (row.title, _error(errors[row.name], DIGITS[CURVE]), str(errors[row.name]["epoch"]))
        for row in rows
        if row.kind == kind and row.name in errors
    ]
    return [f"## {title}", about, markdown(("", "RMSE", "best epoch"), table)] if table else []


def _curve_parts(rows: Sequence[Row], records: Sequence[Record]) -> list[str]:
    parts = []
    for name, points in curves(rows, records).items():
        if points:
            shown = ("error", "auc", "precision_at_size", "rmse_all")
            table = [(f"{strength:g}", *(_number(found.get(key)) for key in shown)) for strength, found in points]
            parts.append(markdown((name, "RMSE", "AUC", "precision", "rating error"), table))
    errors = {r["row"]: r for r in records if r["attack"] == RMSE.name}
    others = [row for row in rows if row.kind is None and row.experiment.dataset != CURVE and row.name in errors]
    if others:
        table = [
            (row.title, _error(errors[row.name], DIGITS[row.experiment.dataset]), str(errors[row.name]["epoch"]))
            for row in others
        ]
        parts += ["The other sets:", markdown(("", "RMSE", "best epoch"), table)]
    return ["## Against lambda and M", CURVES.format(rounds=STRONGEST), *parts] if parts else []


def _traffic_parts(rows: Sequence[Row], records: Sequence[Record]) -> list[str]:
    counts = {r["row"]: r for r in records if r["attack"] == TRAFFIC.name}
    table = []
    for row in (row for row in rows if row.name in counts):
        found = counts[row.name]
        numbers = (
            found["means"]["thousand numbers"]["mean"],
            *(found[key] for key in ("largest", "open", "all_items")),
        )
        table.append((row.title, str(found["width"]), *(f"{number:,.1f}" for number in numbers)))
    head = ("", "width", "sent", "most", "rated items alone", "all items")
    return ["## What users send", SENT, markdown(head, table)] if table else []


def _leak_head(records: Sequence[Record]) -> Line:
    rounds = next(r["specification"]["rounds"] for r in records if r["attack"] == LEAK.name)
    titles = ("AUC", "precision", "rating")
    return ("", *(f"{title}, {n} update{'s' * (n > 1)}" for title in titles for n in rounds))


def _leak(leak: Record, name: str) -> str:
    found, guessed = leak["means"].get(name, {}), leak["guesses"].get(name, {})
    if found.get("mean") is None:
        return "-"
    bounds = [_number(found.get(bound)) for bound in ("mean", "low", "high")]
    interval = "" if len(set(bounds)) == 1 else f" [{bounds[1]}, {bounds[2]}]"
    return f"{bounds[0]}{interval} ({_number(guessed.get('mean'))})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _error(record: Record | None, digits: int) -> str:
    return "-" if record is None else f"{record['test']:.{digits}f}"


def _printed(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{min(digits, 1 if value > 10 else 3)}f}"


RUN_HEAD = (
    *("row", "validation", "test", "offsets' test", "epoch", "of"),
    *("clients/s", "on", "epsilon, stated", "composed"),
)


def _run(r: Record) -> Line:
    privacy = r["privacy"] or {}
    stated, composed = (_epsilon(privacy, name) for name in ("per_coordinate", "epsilon"))
    numbers = (f"{r['validation']:.4f}", f"{r['test']:.4f}", f"{r['bias_test']:.4f}", str(r["epoch"]), str(r["epochs"]))
    return (f"`{r['row']}`", *numbers, f"{r['clients_per_second']:,.0f}", r["device"], stated, composed)


def _epsilon(privacy: Record, name: str) -> str:
    if not privacy:
        return ""
    value = privacy[name]
    return "none" if value is None else f"{value:,.3g}"


def _about(records: Sequence[Record]) -> str:
    devices = sorted({f"{r['device']}, jgleak {r['version']}" for r in records if "device" in r})
    if not devices:
        return ""
    return f"Device: {'; '.join(devices)}; runs at the same time may have shared one, which lowers clients/s."
