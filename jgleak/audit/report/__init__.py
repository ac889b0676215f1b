"""An audit as one page: from the store's plain records to words, tables, plots and pictures. It computes no attack."""
