"""Flower: mods of a ``ClientApp`` and a ``Strategy`` around a strategy. Needs ``pip install 'jgleak[flower]'``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import (  # pyright: ignore[reportMissingImports]
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
)
from flwr.serverapp import Grid  # pyright: ignore[reportMissingImports]
from flwr.serverapp.strategy import Strategy  # pyright: ignore[reportMissingImports]

from jgleak.interop.arrays import Arrays
from jgleak.interop.guard import Guard
from jgleak.interop.recorder import Recorder, going_on

Mod = Callable[[Message, Context, Callable[[Message, Context], Message]], Message]
"""Wraps a client: it gets the message, the context, and the rest of the client as a function."""

COUNT, ROUND = "num-examples", "server-round"
"""The keys under which Flower's strategies expect a client's number of graphs, and send clients the round."""

WITHHELD = 6
"""Flower's error code for a mod that withheld the reply (``MOD_FAILED_PRECONDITION``)."""

REASON = "the client's guard withheld the update"
"""The only text that the server gets."""

log = logging.getLogger("jgleak")


def recording(recorder: Recorder) -> Mod:
    """A mod that records what leaves the client in every round of training; the first of ``mods=[..]`` sees it last.

    Clients reply with their weights by name, ``ArrayRecord(model.state_dict())``, and the number of their graphs under
    ``num-examples``, as ``FedAvg`` requires.
    """

    def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        reply = call_next(message, context)
        if _trains(message) and not reply.has_error():
            client = str(context.node_config.get("partition-id", context.node_id))
            _write(recorder, message, reply, number=_round(message), client=client)
        return reply

    return mod


def guarding(guard: Guard) -> Mod:
    """A mod that attacks every update of this client before it leaves, and sends what the guard allows. A withheld
    reply becomes an ``Error``, which strategies leave out. Its text states only that; the reason is in the client's
    log. Replies that cannot be read or attacked, and arrays in reply to anything but training, are withheld too, since
    what they leak is unknown.
    """

    def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        if not _trains(message):
            if not any(map(len, reply.content.array_records.values())):
                return reply
            log.warning("arrays in reply to %r are withheld: only training is read", message.metadata.message_type)
            return _withheld(message)
        number = _round(message)
        try:
            name, returned = _only(reply)
            decision = guard.decision(arrays_of(message), _numpy(returned), graphs=graphs_of(reply))
        # Flower sends the text of any exception to the server, and it may contain labels and values.
        except Exception:
            log.exception("round %s: withheld, as it cannot be read or attacked", number)
            return _withheld(message)
        log.info("round %s: %s in %.1f s", number, decision.reason, decision.seconds)
        if decision.leaves is None:
            return _withheld(message)
        if decision.action == "noised":
            reply.content[name] = ArrayRecord({key: Array(value) for key, value in decision.leaves.items()})
        return reply

    return mod


class Recording(Strategy):
    """A strategy that records every client's round as the server sees it, and otherwise acts as the strategy that it
    wraps.

    Args:
      strategy: any strategy of Flower.
      recorder: the recorder that writes the files.
    """

    def __init__(self, strategy: Strategy, recorder: Recorder) -> None:
        super().__init__()
        self.strategy, self.recorder = strategy, recorder
        self._sent: dict[int, Message] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._sent = {message.metadata.dst_node_id: message for message in messages}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        for reply in replies:
            client = reply.metadata.src_node_id
            if not reply.has_error() and client in self._sent:
                _write(self.recorder, self._sent[client], reply, number=server_round, client=str(client))
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self.strategy.summary()


def arrays_of(message: Message) -> Arrays:
    """The weights of a message by name.

    Raises:
      ValueError: it has not exactly one record of arrays.
    """
    return _numpy(_only(message)[1])


def graphs_of(reply: Message) -> int:
    """The number of graphs that a client states it trained on.

    Raises:
      ValueError: it states none, or not a whole number.
    """
    for record in reply.content.metric_records.values():
        if COUNT in record:
            count = record[COUNT]
            if isinstance(count, list) or count != int(count):
                raise ValueError(f"reply: {COUNT!r} is the number of the client's graphs, got {count!r}")
            return int(count)
    raise ValueError(f"reply: its metrics have no {COUNT!r}; let the client return the number of its graphs under it")


def _write(recorder: Recorder, sent: Message, reply: Message, *, number: int | None, client: str) -> None:
    with going_on(number, client):
        before, after, graphs = arrays_of(sent), arrays_of(reply), graphs_of(reply)
        recorder.write(before, after, graphs=graphs, number=number, client=client)


def _trains(message: Message) -> bool:
    """Whether a message asks for training, under whatever name: Flower routes ``train.local`` to ``train("local")``."""
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN


def _withheld(message: Message) -> Message:
    return Message(Error(code=WITHHELD, reason=REASON), reply_to=message)


def _round(message: Message) -> int | None:
    """The number of the round; None where the message has none."""
    said = (record.get(ROUND) for record in message.content.config_records.values())
    return next((number for number in said if isinstance(number, int)), None)


def _only(message: Message) -> tuple[str, ArrayRecord]:
    records = message.content.array_records
    if len(records) != 1:
        raise ValueError(f"message: it has {len(records)} records of arrays; send the model's weights in one")
    return next(iter(records.items()))


def _numpy(record: ArrayRecord) -> dict[str, Any]:
    return {name: array.numpy() for name, array in record.items()}
