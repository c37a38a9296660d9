"""Crash points: a conductor is killed at each write and each outbound call of a flow."""

import os

#: Try everything, however long it takes; otherwise a sample of what takes long.
NIGHTLY = os.environ.get("IRONIC_RS_NIGHTLY") == "1"
