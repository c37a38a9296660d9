"""Hardware types: which interfaces fit a kind of machine."""
