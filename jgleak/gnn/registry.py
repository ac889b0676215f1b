"""The parts of models by the names that users type and that files hold."""

from __future__ import annotations

from jgleak.gnn.convolution import Convolution
from jgleak.gnn.encoder import Encoder
from jgleak.gnn.norm import Norm
from jgleak.gnn.readout import Readout
from jgleak.gnn.residual import Residual
from jgleak.names import parts
from jgleak.names.entries import Entries

CONVOLUTIONS: Entries[type[Convolution]] = Entries(parts.CONVOLUTIONS)
READOUTS: Entries[type[Readout]] = Entries(parts.READOUTS | parts.RATING_READOUTS)
NORMS: Entries[type[Norm]] = Entries(parts.NORMS)
RESIDUALS: Entries[type[Residual]] = Entries(parts.RESIDUALS)
ENCODERS: Entries[type[Encoder]] = Entries(parts.ENCODERS)
