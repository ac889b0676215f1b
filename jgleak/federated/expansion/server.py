"""The recommendation server's part in an expansion: it makes the clients' key, and sees nothing else."""

from __future__ import annotations

from jgleak.federated.expansion.cipher import Cipher


class ExpansionServer:
    """Makes the key of one expansion.

    It learns which clients ask for the key. It never receives an upload or a reply, so it does not learn who rated
    what, who is whose neighbour, or an embedding. It *could* decrypt every upload: the protocol holds as long as the
    server and the third party do not share what they have (FedGNN, section 3.5, says the same of its private key).
    """

    def __init__(self, cipher: Cipher | None = None) -> None:
        self.cipher = cipher or Cipher.new()

    def keys(self) -> bytes:
        """The message for every client, over a channel that only the two can read."""
        return self.cipher.to_bytes()
