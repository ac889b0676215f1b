"""What FedGNN's encrypted expansion and FedMF's encrypted sums cost, and what matching gives away all the same.

``python -m benchmarks.speed.encryption_cost --write``.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from benchmarks.lib.options import parts
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak.datasets import ratings as load_ratings
from jgleak.federated.expansion import ExpansionClient, ExpansionServer, ThirdParty
from jgleak.federated.expansion.cipher import SECRET, SESSION, Cipher
from jgleak.federated.expansion.messages import ExpansionUpload
from jgleak.federated.secure import Aggregator, FixedPoint, GradientClient, generate

ROUND = 128
"""Users of a round (FedGNN, section 4.1)."""

TIES = 100
"""Ways to break ties of popularity that are averaged over."""

CODE = FixedPoint(bound=1.0, fraction=24, addends=ROUND)

T = TypeVar("T")
Seconds = defaultdict[str, float]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    sets: Annotated[str, typer.Option(help="Rating sets, by commas.")] = "douban,flixster,yahoo-music",
    width: Annotated[int, typer.Option(min=1, help="Numbers in an embedding.")] = 256,
    neighbours: Annotated[int, typer.Option(min=1, help="Neighbours an item.")] = 10,
    bits: Annotated[int, typer.Option(min=256, help="Bits of Paillier's modulus.")] = 2048,
    clients: Annotated[int, typer.Option(min=2, help="Clients who encrypt gradients.")] = 3,
    rows: Annotated[int, typer.Option(min=1, help="Items whose gradients each of them encrypts.")] = 20,
    seed: Annotated[int, typer.Option(help="Seeds embeddings, gradients and guesses.")] = 0,
    write: Annotated[bool, typer.Option("--write", help="Into results/encryption_cost.jsonl.")] = False,
) -> None:
    """One JSON line each: the machine, and of every set its size, the expansion, a frequency attack on it, encrypted
    sums packed and not.

    Seconds are processor time of one thread, so that other work on the machine counts for less.
    """
    records = Records()
    records.say(provenance())
    for name in parts(sets):
        ratings, rng = rated(name), np.random.default_rng(seed)
        records.say({"set": name, "part": "size", "users": len(ratings), "ratings": int(ratings.sum())})
        records.say({"set": name} | expansion(ratings, width, neighbours, rng))
        records.say({"set": name} | frequencies(ratings, rng))
        for packed in (True, False):
            cost = sums(bits, clients, rows, width, packed=packed, rng=rng)
            records.say({"set": name} | cost | extrapolated(cost, ratings, width))
    if write:
        records.write("encryption_cost")


def rated(name: str) -> np.ndarray:
    """Who rated what in a set: users by items."""
    split = load_ratings(name)
    out = np.zeros((split.train.n_users, split.train.n_items), bool)
    for part in (split.train, split.test):
        out[part.users, part.items] = True
    return out


def expansion(ratings: np.ndarray, width: int, neighbours: int, rng: np.random.Generator) -> dict[str, Any]:
    """Every user's part one after another, in seconds a step for all of them."""
    table = rng.normal(size=(len(ratings), width)).astype(np.float32)
    server, third_party = ExpansionServer(), ThirdParty(neighbours=neighbours, rng=rng)
    users = [
        ExpansionClient(np.flatnonzero(row), own, keys=server.keys()) for row, own in zip(ratings, table, strict=True)
    ]
    took: Seconds = defaultdict(float)
    sizes: Counter[str] = Counter()
    for user in users:
        upload = _timed(took, "encrypt", user.upload)
        _timed(took, "collect", lambda upload=upload: third_party.receive(upload))
        sizes["upload_bytes"] += len(upload)
    _timed(took, "match", third_party.match)
    for user in users:
        reply = _timed(took, "reply", lambda user=user: third_party.reply(user.handle))
        found = _timed(took, "decrypt", lambda user=user, reply=reply: user.receive(reply))
        sizes["reply_bytes"] += len(reply)
        sizes["neighbours"] += len(found.embeddings)
    return {"part": "expansion", "width": width, "neighbours_an_item": neighbours, "seconds": _rounded(took)} | {
        f"{name}_a_user": round(size / len(users), 1) for name, size in sizes.items()
    }


def frequencies(ratings: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """The share of ratings whose item the third party names by popularity alone: rank against rank.

    ``own``: it knows how many of these users rated each item. ``others``: it has uploads of one half of the users, and
    the popularity among the other half. ``chance``: items named at random. Means over ways to break ties.
    """
    mixed = rng.permutation(ratings)
    half = len(mixed) // 2
    return {
        "part": "frequency attack",
        "own": _named(ratings, ratings.sum(0), rng),
        "others": _named(mixed[:half], mixed[half:].sum(0), rng),
        "chance": round(1 / ratings.shape[1], 5),
    }


def _named(ratings: np.ndarray, popularity: np.ndarray, rng: np.random.Generator) -> float:
    server = ExpansionServer(Cipher(rng.bytes(SECRET), rng.bytes(SESSION)))
    uploads = [ExpansionClient(np.flatnonzero(row), [0.0], keys=server.keys()).upload() for row in ratings]
    seen = Counter(item.tobytes() for upload in uploads for item in ExpansionUpload.from_bytes(upload).items)
    counts = np.asarray(list(seen.values()))
    truth = server.cipher.decrypt(np.frombuffer(b"".join(seen), np.uint8).reshape(len(seen), -1))
    right = 0
    for _ in range(TIES):
        ciphertexts, items = rng.permutation(len(counts)), rng.permutation(len(popularity))
        ciphertexts = ciphertexts[np.argsort(-counts[ciphertexts], kind="stable")]
        guesses = items[np.argsort(-popularity[items], kind="stable")][: len(ciphertexts)]
        right += counts[ciphertexts][truth[ciphertexts] == guesses].sum()
    return round(float(right / (TIES * counts.sum())), 5)


def sums(bits: int, clients: int, rows: int, width: int, *, packed: bool, rng: np.random.Generator) -> dict[str, Any]:
    """Clients encrypt random gradients of the same items, the server adds them, one decrypts; checked against NumPy.

    Not packed: every number is a row of its own, of a single column, and there are fewer of them.
    """
    shape = (rows, width) if packed else (5 * rows, 1)
    tables = [rng.uniform(-1, 1, shape) for _ in range(clients)]
    took: Seconds = defaultdict(float)
    keys = _timed(took, "keys", lambda: generate(bits))
    server, parties = Aggregator(keys.public, CODE), [GradientClient(keys.private, CODE) for _ in tables]
    messages = [
        _timed(took, "encrypt", lambda party=party, table=table: party.encrypt(range(len(table)), table))
        for party, table in zip(parties, tables, strict=True)
    ]
    for message in messages:
        _timed(took, "add", lambda message=message: server.add(message))
    total = server.total()
    _, found = _timed(took, "decrypt", lambda: parties[0].decrypt(total))
    error = float(np.abs(found - np.sum(tables, axis=0)).max())
    if error > clients * CODE.step / 2:
        raise RuntimeError(f"the decrypted sum is off by {error}, more than the encoding explains")
    slots = CODE.slots(bits) if packed else 1
    count = shape[0] * -(-shape[1] // slots)
    milliseconds = {
        name: 1e3 * took[name] / count / (1 if name == "decrypt" else clients) for name in ("encrypt", "add", "decrypt")
    }
    return {
        "part": "packed" if packed else "number by number",
        "bits": bits,
        "slots": slots,
        "ciphertexts": count,
        "largest_error": error,
    } | {
        "milliseconds_a_ciphertext": {name: round(value, 4) for name, value in milliseconds.items()},
        "bytes_a_ciphertext": bits // 4,
        "keys_seconds": round(took["keys"], 2),
    }


def extrapolated(cost: dict[str, Any], ratings: np.ndarray, width: int) -> dict[str, Any]:
    """Not measured: the cost a ciphertext, times how many there are with all items of the set, or the rated ones."""
    row = -(-width // cost["slots"])
    each = cost["milliseconds_a_ciphertext"]
    out = {}
    for name, items in (("all_items", ratings.shape[1]), ("rated_items", float(ratings.sum(1).mean()))):
        count = row * items
        out[name] = {
            "client_encrypts_seconds": round(count * each["encrypt"] / 1e3, 2),
            "server_adds_round_seconds": round(count * each["add"] * ROUND / 1e3, 2),
            "client_uploads_megabytes": round(count * cost["bytes_a_ciphertext"] / 1e6, 3),
        }
    out["client_decrypts_all_items_seconds"] = round(row * ratings.shape[1] * each["decrypt"] / 1e3, 2)
    return {"extrapolated": out}


def _timed(took: Seconds, name: str, run: Callable[[], T]) -> T:
    begun = time.process_time()
    out = run()
    took[name] += time.process_time() - begun
    return out


def _rounded(took: Seconds) -> dict[str, float]:
    return {name: round(value, 3) for name, value in took.items()}


if __name__ == "__main__":
    app()
