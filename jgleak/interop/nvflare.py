"""NVFlare: filters for the results of a client's tasks. Needs ``pip install 'jgleak[nvflare]'``."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable  # pyright: ignore[reportMissingImports]
from nvflare.apis.dxo_filter import DXOFilter  # pyright: ignore[reportMissingImports]
from nvflare.apis.event_type import EventType  # pyright: ignore[reportMissingImports]
from nvflare.apis.filter import ContentBlockedException  # pyright: ignore[reportMissingImports]
from nvflare.apis.fl_constant import FLContextKey, ReturnCode  # pyright: ignore[reportMissingImports]
from nvflare.apis.fl_context import FLContext  # pyright: ignore[reportMissingImports]
from nvflare.apis.shareable import Shareable  # pyright: ignore[reportMissingImports]
from nvflare.app_common.app_constant import AppConstants  # pyright: ignore[reportMissingImports]

from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.guard import Guard
from jgleak.interop.recorder import Recorder, going_on

log = logging.getLogger("jgleak")

UNKNOWN = "no weights came with the task, so that the client's start is unknown"

KINDS = [DataKind.WEIGHTS, DataKind.WEIGHT_DIFF]


class RoundFilter(DXOFilter):
    """The base of both filters: it keeps the weights from which the client trains, and reads what it sends. The weights
    are kept when the client is about to train (``AFTER_TASK_DATA_FILTER``). A job's configuration holds plain values
    only, so the description is built in a subclass whose ``__init__`` calls this one's.

    Args:
      graphs: on how many graphs this client trains.
    """

    def __init__(self, graphs: int) -> None:
        super().__init__(supported_data_kinds=KINDS, data_kinds_to_filter=KINDS)
        self.graphs = graphs
        self.sent: Arrays | None = None
        self.number: int | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.AFTER_TASK_DATA_FILTER:
            task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
            self.sent = _weights(task)
            self.number = None if self.sent is None else task.get_header(AppConstants.CURRENT_ROUND)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        if self.sent is None:
            raise ValueError(f"dxo: {UNKNOWN}")
        number = shareable.get_header(AppConstants.CURRENT_ROUND, dxo.get_meta_prop(MetaKey.CURRENT_ROUND, self.number))
        return self.seen(dxo, self.sent, _returned(dxo, self.sent), number=number, fl_ctx=fl_ctx)

    @abstractmethod
    def seen(self, dxo: DXO, sent: Arrays, returned: Arrays, *, number: int | None, fl_ctx: FLContext) -> DXO | None:
        """What is sent in place of ``dxo``; None: ``dxo`` itself."""


class RecordingFilter(RoundFilter):
    """Records what leaves the client; as the last filter of the chain it sees the others' results.

    Args:
      recorder: what writes the files.
      graphs: on how many graphs this client trains.
    """

    def __init__(self, recorder: Recorder, graphs: int) -> None:
        super().__init__(graphs)
        self.recorder = recorder

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        with going_on(None, fl_ctx.get_identity_name("client")):
            super().process_dxo(dxo, shareable, fl_ctx)
        return None

    def seen(self, dxo: DXO, sent: Arrays, returned: Arrays, *, number: int | None, fl_ctx: FLContext) -> DXO | None:
        self.recorder.write(
            sent, returned, graphs=self.graphs, number=number, client=fl_ctx.get_identity_name("client")
        )
        return None


class GuardingFilter(RoundFilter):
    """Attacks what is about to leave, and sends what the guard allows. A withheld result raises
    ``ContentBlockedException``: the server gets an error code in place of the result. Results that are neither weights
    nor their difference nor metrics are withheld too, since no attack here reads them. Apply the filter to the tasks
    that train.

    Args:
      guard: the guard that decides.
      graphs: on how many graphs this client trains.
    """

    def __init__(self, guard: Guard, graphs: int) -> None:
        super().__init__(graphs)
        self.guard = guard
        self.data_kinds = []  # all kinds, so that none is sent unchecked

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        # The base class sends whatever it cannot read.
        if shareable.get_return_code() == ReturnCode.OK:
            try:
                from_shareable(shareable)
            except Exception as error:
                raise ContentBlockedException("the client's guard withheld a result that is no DXO") from error
        return super().process(shareable, fl_ctx)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        if dxo.data_kind in KINDS:
            return super().process_dxo(dxo, shareable, fl_ctx)
        if dxo.data_kind != DataKind.METRICS:
            raise ContentBlockedException(f"the client's guard withheld a result of kind {dxo.data_kind}")
        return None

    def seen(self, dxo: DXO, sent: Arrays, returned: Arrays, *, number: int | None, fl_ctx: FLContext) -> DXO | None:
        decision = self.guard.decision(sent, returned, graphs=self.graphs)
        log.info("round %s: %s in %.1f s", number, decision.reason, decision.seconds)
        if decision.leaves is None:
            raise ContentBlockedException("the client's guard withheld the update")
        if decision.action == "noised":
            dxo.data = _as_sent(dxo, sent, decision.leaves)
        return dxo


def _weights(task: Any) -> Arrays | None:
    """A copy of the weights of a task; None where it has none (it is not training), or they cannot be read."""
    try:
        dxo = from_shareable(task)
        if dxo.data_kind != DataKind.WEIGHTS:
            return None
        return {name: array.copy() for name, array in by_name(dxo.data).items()}
    except (ValueError, TypeError, AttributeError):
        return None


def _returned(dxo: DXO, sent: Arrays) -> Arrays:
    """The client's weights, in the type of those that it got; differences are added to those.

    Raises:
      ValueError: a difference has no weight that was sent, or another shape: everything that leaves must be read.
    """
    data = by_name(dxo.data)
    if dxo.data_kind == DataKind.WEIGHTS:
        return data
    for name, array in data.items():
        if name not in sent or sent[name].shape != array.shape:
            said = f"was sent as {sent[name].shape}" if name in sent else "was not sent"
            raise ValueError(f"dxo: the difference {name!r} has shape {array.shape}, and {said}; leave it out")
    return {name: (sent[name] + array).astype(sent[name].dtype) for name, array in data.items()}


def _as_sent(dxo: DXO, sent: Arrays, leaves: Arrays) -> dict[str, np.ndarray]:
    """Weights in the form in which the client wanted to send them."""
    if dxo.data_kind == DataKind.WEIGHTS:
        return dict(leaves)
    return {name: array - sent[name] for name, array in leaves.items()}
