"""Nouns and rules without input or output: states, steps, fields, errors."""
