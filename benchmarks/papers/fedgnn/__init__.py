"""FedGNN's rows, records, page and pictures."""
