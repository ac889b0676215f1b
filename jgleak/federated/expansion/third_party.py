"""The third party: matches equal ciphertexts of different users, and passes their sealed embeddings on."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from jaxtyping import Int32

from jgleak.federated.expansion.messages import ExpansionUpload, Reply


class ThirdParty:
    """Finds users who rated the same items without knowing users or items (FedGNN, section 3.4, algorithm 2).

    Uploads come first, then ``match`` once, then replies.

    It learns how many items each handle has, which ciphertexts of which handles are equal (the rating graph without the
    items' names, and with it every item's popularity), and the embeddings' width. It holds no key. Unlike in the
    paper it cannot read embeddings either: clients seal them, and it only forwards.

    Of the other raters of an item each rater is shown ``min(K, r - 1)``, drawn at random: the ``r`` raters are put in a
    circle in random order and each is shown the next ones. So every set of others is equally likely, and everyone is
    shown equally often. The paper does not say how many neighbours a client gets.
    """

    def __init__(self, *, neighbours: int, rng: np.random.Generator) -> None:
        if neighbours < 1:
            raise ValueError(f"neighbours: {neighbours} an item leave nothing to expand with; give at least 1")
        self.neighbours = neighbours
        self._rng = rng
        self._users: dict[bytes, int] = {}
        self._uploads: list[ExpansionUpload] = []
        self._sealed = np.empty((0, 0), np.uint8)
        self._matches: list[Int32[np.ndarray, "n K"]] | None = None

    def receive(self, message: bytes) -> None:
        """Take a client's upload.

        Whether ciphertexts are valid can't be seen without the key: an altered one matches nothing.

        Raises:
          ValueError: not an upload; a ciphertext occurs twice; an embedding of another width than those before; a
            handle that is taken; or matching is over.
        """
        upload = ExpansionUpload.from_bytes(message)
        if self._matches is not None:
            raise ValueError("upload: matching is over; start another expansion")
        if upload.handle in self._users:
            raise ValueError("upload: this handle has uploaded already; a client uploads once an expansion")
        if len({row.tobytes() for row in upload.items}) < len(upload.items):
            raise ValueError("upload: a ciphertext occurs twice; a user's items must be distinct")
        if self._uploads and len(upload.sealed) != len(self._uploads[0].sealed):
            was, now = len(self._uploads[0].sealed), len(upload.sealed)
            raise ValueError(f"upload: the embedding takes {now} bytes, others' {was}; all users need the same width")
        self._users[upload.handle] = len(self._uploads)
        self._uploads.append(upload)

    def match(self) -> None:
        """Find and draw everyone's neighbours.

        Raises:
          ValueError: matching is over.
        """
        if self._matches is not None:
            raise ValueError("match: matching is over; start another expansion")
        raters: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for user, upload in enumerate(self._uploads):
            for place, row in enumerate(upload.items):
                raters[row.tobytes()].append((user, place))
        starts = np.cumsum([0, *(len(upload.items) for upload in self._uploads)])
        drawn = np.full((starts[-1], self.neighbours), -1, np.int32)
        for pairs in raters.values():
            users, places = self._rng.permutation(np.asarray(pairs)).T
            others = np.arange(1, min(self.neighbours, len(users) - 1) + 1)
            circle = (np.arange(len(users))[:, None] + others) % len(users)
            drawn[starts[users] + places, : len(others)] = users[circle]
        self._matches = np.split(drawn, starts[1:-1])
        self._sealed = np.asarray([upload.sealed for upload in self._uploads])

    def reply(self, handle: bytes) -> bytes:
        """The neighbours of the client that uploaded under ``handle``.

        Raises:
          ValueError: nothing was uploaded under it, or nothing was matched yet.
        """
        if self._matches is None:
            raise ValueError("reply: nothing was matched yet; call match() once all clients have uploaded")
        if handle not in self._users:
            raise ValueError("reply: nothing was uploaded under this handle; upload before asking for neighbours")
        user = self._users[handle]
        match = self._matches[user]
        chosen = self._rng.permutation(np.unique(match[match >= 0]))  # the order of uploads tells who is who
        rows = np.full(len(self._uploads) + 1, -1, np.int32)  # the last is for -1, no neighbour
        rows[chosen] = np.arange(len(chosen))
        return Reply(self._uploads[user].items, self._sealed[chosen], rows[match]).to_bytes()
