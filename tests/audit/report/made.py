"""Audits made up for tests: units with numbers of our choosing, as the store would return them."""

from __future__ import annotations

from typing import Any

from jgleak.audit.results import Audit, Unit
from jgleak.audit.specification import Specification

NAMES = {"data": "molecules", "model": "gcn", "attack": "census", "defense": "none", "seed": "0"}


def certificate(status: str = "unique", size: int = 1) -> dict[str, Any]:
    """A certificate as a record holds it."""
    return {
        "status": status,
        "size": size,
        "n_max": 40,
        "n_known": False,
        "residual": 1e-7,
        "conditions": ["the graph is connected"],
        "noise": None,
    }


def unit(client: int, *, status: str = "done", reason: str | None = None, **given: Any) -> Unit:
    """One unit: names of the cell and fields of the record by keyword, the others as a good attack leaves them."""
    cell = NAMES | {key: given.pop(key) for key in tuple(given) if key in NAMES}
    attack = given.pop("kind", cell["attack"])
    defense = "" if cell["defense"] == "none" else cell["defense"]
    batch = given.pop("batch_size", 1)
    specification = Specification(attack=attack, defense=defense, seed=int(cell["seed"]), batch_size=batch)
    auc = {"auc": given.pop("auc", 0.9)}
    record: dict[str, Any] = {
        "graph": client,
        "name": f"molecule {client}",
        "n_nodes": 10 + 2 * client,
        "seconds": 1.5,
        "exact": True,
        "truth_in_set": True,
        "guess_rate": 0.25,
        "gsm0": 1.0,
        "gsm1": 1.0,
        "gsm2": 1.0,
        "edges": {"file_order": {"auc": 0.5}, "aligned": auc},
        "gradient_distance": 1e-7,
        "stop": "match",
        "info": {},
        "protocol": "fedsgd",
        "certificate": None,
        **given,
    }
    return Unit(
        hash="-".join((*cell.values(), str(client))),
        cell=cell,
        specification=specification.to_json(),
        client=client,
        status=status,
        reason=reason,
        record=record if status == "done" else {},
        device="a processor",
        versions={"jgleak": "0.0", "jax": "0.1"},
        seconds=1.5,
        finished_at=f"2026-01-01T00:00:{client:02d}+00:00",
    )


def audit(*units: Unit, name: str = "made up", text: str = "[audit]\nname = 'made up'\n", planned: int = 0) -> Audit:
    """An audit of these units."""
    return Audit(name, text, planned or len(units), list(units))


def grid() -> Audit:
    """Two attacks and a baseline, with and without a defence, two seeds on the same clients; some break, some skip."""
    units = []
    for defense in ("none", "clip:1+gaussian:0.1"):
        for attack in ("census", "dlg", "random"):
            for seed in ("0", "1"):
                for client in range(6):
                    hit = attack == "census" and defense == "none" and (client + int(seed)) % 4 != 0
                    similar = 1.0 if hit else 0.2 + 0.03 * client
                    where = {"attack": attack, "defense": defense, "seed": seed}
                    listed = certificate("unique") if hit else certificate("k_graphs", 3)
                    units.append(
                        unit(
                            client,
                            **where,
                            exact=hit,
                            truth_in_set=hit or (attack == "census" and client == 0),
                            gsm0=similar,
                            gsm1=similar,
                            gsm2=similar,
                            auc=0.5 + similar / 2,
                            certificate=listed if attack == "census" and defense == "none" else None,
                        )
                    )
    units.append(unit(6, attack="dlg", status="failed", reason="Traceback\n  ...\nValueError: <b>singular</b>"))
    units.append(unit(0, attack="census", defense="prune:0.9", status="skipped", reason="it needs the whole update"))
    return audit(*units, planned=len(units) + 4)
