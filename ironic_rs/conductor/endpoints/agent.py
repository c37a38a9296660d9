"""RPC: what a ramdisk says: heartbeats, and the one-time token at look-up.

A heartbeat takes the exclusive lock at once and without waiting: record-only ones
then cost four statements in all, and a busy node costs no worker.  What a locked
node misses, the next heartbeat brings.

Source: specification conductor.md sections 8.1 and 8.2, defect W46.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from oslo_log import log

from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.domain.secrets import token_matches
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

MASK = "******"


def _check(node: models.Node, token: str | None, callback_url: str) -> None:
    """Refuse a heartbeat that does not come from the node's own ramdisk.

    :raises InvalidParameterValue: wrong token, or no TLS where it is required.
    """
    if not token_matches(node.driver_internal_info, token):
        LOG.error("Node %s: heartbeat with an invalid or missing agent token", node.uuid)
        raise errors.InvalidParameterValue("Invalid or missing agent token received.")
    if CONF.agent.require_tls and callback_url and not callback_url.startswith("https://"):
        raise errors.InvalidParameterValue(
            f"TLS is required in agent callback URLs ([agent]require_tls), received {callback_url}."
        )


def store_certificate(node: models.Node, certificate: str) -> str:
    """Keep the agent's certificate on this host; return the path of the file.

    :raises InvalidParameterValue: not a certificate, or not the one shown before.
    """
    try:
        x509.load_pem_x509_certificates(certificate.encode())
    except ValueError as exc:
        raise errors.InvalidParameterValue(
            f"agent_verify_ca of node {node.uuid} is not a certificate in PEM form: {exc}"
        ) from exc
    recorded = node.driver_internal_info.get("agent_verify_ca")
    if recorded:
        try:
            if Path(recorded).read_text() != certificate:
                raise errors.InvalidParameterValue(
                    f"The agent of node {node.uuid} sent another TLS certificate than before."
                )
            return str(recorded)
        except FileNotFoundError:
            # Another conductor had the node when it was shown.
            LOG.info("Node %s: its agent's certificate is stored on this host now", node.uuid)
    directory = Path(CONF.agent.certificates_path)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{node.uuid}.crt"
    handle, temporary = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "w") as file:
        file.write(certificate)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    return str(path)


class AgentEndpoint(Endpoint):
    """Calls of the ramdisk."""

    @rpc_method("heartbeat", since="1.34")
    def heartbeat(
        self,
        context: RequestContext,
        node_id: str,
        callback_url: str,
        *,
        agent_version: str | None = None,
        agent_token: str | None = None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Accept a heartbeat; a worker acts on it.

        :param agent_verify_ca: PEM text of the agent's certificate.
        :raises InvalidParameterValue: not from this node's ramdisk, or malformed.
        :raises NodeLocked: the node is busy and this is the first word of its agent.
        """
        if agent_version is None and agent_status is None:
            raise errors.InvalidParameterValue(
                "Either agent_version or agent_status is required in a heartbeat."
            )
        try:
            task = self.acquire(context, node_id, purpose="heartbeat", retry=False)
        except errors.NodeLocked as exc:
            self._missed(context, node_id, agent_token, callback_url, exc)
            return
        with task:
            _check(task.node, agent_token, callback_url)
            path = None
            if agent_verify_ca:
                path = store_certificate(task.node, agent_verify_ca)
            # Requests of users must find a worker however many agents there are.
            task.allow_reserved_pool = False
            task.spawn_after(
                _act,
                task,
                callback_url,
                agent_version,
                agent_verify_ca=path,
                agent_status=agent_status,
                agent_status_message=agent_status_message,
            )

    def _missed(
        self,
        context: RequestContext,
        node_id: str,
        token: str | None,
        callback_url: str,
        locked: errors.NodeLocked,
    ) -> None:
        """Answer the heartbeat of a locked node."""
        with self.acquire(
            context, node_id, shared=True, purpose="heartbeat", load_driver=False
        ) as task:
            node = task.node
            _check(node, token, callback_url)
            if not node.driver_internal_info.get("agent_url"):
                # Nobody could reach the agent before its next regular heartbeat: it
                # repeats a refused one within seconds.
                raise locked
            LOG.info("Node %s is locked: its heartbeat is not acted on", node.uuid)

    @rpc_method("get_node_with_token", since="1.49")
    def get_node_with_token(self, context: RequestContext, node_id: str) -> dict[str, str]:
        """Give the ramdisk its token, once.

        :returns: {"uuid", "agent_secret_token"}; the token is masked from the second
            call on.
        :raises NodeLocked: the node is busy; the agent asks again.
        """
        with self.acquire(
            context, node_id, shared=True, purpose="generate_token", load_driver=False
        ) as task:
            if not task.node.driver_internal_info.get("agent_secret_token"):
                task.upgrade_lock(retry=False)
            node = task.node
            info = node.driver_internal_info
            if info.get("agent_secret_token"):
                return {"uuid": str(node.uuid), "agent_secret_token": MASK}
            token = secrets.token_urlsafe()
            info["agent_secret_token"] = token
            info.pop("agent_secret_token_pregenerated", None)
            task.save()
            return {"uuid": str(node.uuid), "agent_secret_token": token}


def _act(task: Task, callback_url: str, agent_version: str | None, **details: str | None) -> None:
    task.driver.deploy.heartbeat(task, callback_url, agent_version, **details)
