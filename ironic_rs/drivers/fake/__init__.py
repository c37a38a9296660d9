"""Fake interfaces: machines that exist only in the database."""
