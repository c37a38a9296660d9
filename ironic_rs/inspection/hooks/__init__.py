"""Inspection hooks: small pieces that turn an inventory into properties and ports."""
