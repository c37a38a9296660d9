"""Thin clients of other services."""
