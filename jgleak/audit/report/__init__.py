"""An audit as one page: words, tables, plots and pictures from the store's records. It runs no attack."""
