"""TLS certificates that agents send with their heartbeats.

Source: specification conductor.md section 8.2 and 17 (W46), agent-protocol.md
section 4; field case 58.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.db import models


def check(node: models.Node, pem: str) -> None:
    """Check the certificate of a heartbeat; nothing is written.

    :raises InvalidParameterValue: no certificate, or another one than this agent
        has sent before.
    """
    try:
        x509.load_pem_x509_certificates(pem.encode())
    except ValueError as exc:
        raise errors.InvalidParameterValue(
            f"agent_verify_ca of node {node.uuid} is not a certificate in PEM form: {exc}"
        ) from exc
    recorded = node.driver_internal_info.get("agent_verify_ca")
    # After a take-over the recorded file is on another host.
    if recorded and Path(recorded).exists() and Path(recorded).read_text() != pem:
        raise errors.InvalidParameterValue(
            f"The agent of node {node.uuid} has sent another TLS certificate before."
        )


def store(node: models.Node, pem: str) -> str:
    """Store the certificate of a heartbeat; returns its path.

    Call it under the lock.

    :raises InvalidParameterValue: see :func:`check`.
    """
    check(node, pem)
    directory = Path(CONF.agent.certificates_path)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{node.uuid}.crt"
    part = path.with_suffix(".part")
    part.write_text(pem)
    os.replace(part, path)
    return str(path)
