"""Owns nodes: locks, worker pools, periodic tasks, steps and flows."""
