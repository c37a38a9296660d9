"""A fleet of simulated machines; a client of the product, imported by no other room."""
