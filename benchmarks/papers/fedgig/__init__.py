"""FedGIG's rows."""
