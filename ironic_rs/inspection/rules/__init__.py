"""Inspection rules: conditions on what is known of a node, actions on what is to be so."""
