"""One controller module per resource of version 1."""
