"""Life of a simulated agent: inspection, look-up, token, serving, heartbeats.

Source: specification agent-protocol.md sections 2 to 6.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

import aiohttp

from ironic_rs.sandbox.agent import inventory, tls
from ironic_rs.sandbox.agent.commands import CommandQueue
from ironic_rs.sandbox.agent.errors import FatalAgentError
from ironic_rs.sandbox.agent.server import AgentServer
from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.media import BootMedium

LOG = logging.getLogger(__name__)

VERSION = "13.0.0"
_VERSION_HEADER = "X-OpenStack-Ironic-API-Version"
_FALLBACK_API = (1, 31)
_LOOKUP_API, _HEARTBEAT_API = (1, 62), (1, 68)
_MIN_TOKEN = 32
_INSPECTION_ATTEMPTS = 5
_HIDDEN = "******"
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)

# ``ssl`` argument of aiohttp: a context, True (verify) or False (do not).
Verification = ssl.SSLContext | bool


class Agent:
    """One boot of the agent.  :meth:`run` ends only by cancellation or a fatal error."""

    def __init__(self, machine: Machine, medium: BootMedium) -> None:
        self.machine = machine
        self.medium = medium
        self.state = "starting"
        self.token: str | None = _embedded_token(medium)
        self.node_uuid: str | None = None
        self.allow_md5 = False
        self.commands = CommandQueue(self)
        self.log_lines: deque[str] = deque(maxlen=1000)
        self._verify: Verification = True
        self._forced = asyncio.Event()
        self._stop_serving = asyncio.Event()
        self._heartbeat_timeout = 300.0
        self._callback_url = ""
        self._certificate: str | None = None
        self._api_version = _FALLBACK_API
        self._config: dict[str, Any] = {}

    # -- called by commands ---------------------------------------------------------

    def log(self, text: str) -> None:
        """A line of the agent's own log, which log.collect_system_logs hands out."""
        self.log_lines.append(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {text}")
        LOG.debug("machine=%s agent: %s", self.machine.spec.name, text)

    def force_heartbeat(self) -> None:
        """Heartbeat soon instead of at the regular time."""
        self._forced.set()

    def stop_serving(self, state: str) -> None:
        """Leave the network but keep the machine on."""
        self.state = state
        self._stop_serving.set()

    def to_json(self) -> dict[str, Any]:
        """State for the control endpoint; never the token."""
        return {
            "state": self.state,
            "node_uuid": self.node_uuid,
            "callback_url": self._callback_url,
            "commands": [
                {"name": result.name, "status": result.status, "error": result.error}
                for result in self.commands.results
            ],
        }

    # -- life -----------------------------------------------------------------------

    async def run(self) -> None:
        """Live until the machine is switched off."""
        try:
            await self._live()
        except FatalAgentError as exc:
            self._fail(str(exc))
        finally:
            self.commands.cancel()
        # A ramdisk whose agent gave up stays up and silent.
        await asyncio.Event().wait()

    def _fail(self, reason: str) -> None:
        self.state = f"failed: {reason}"
        self.log(self.state)
        LOG.warning("machine=%s agent %s", self.machine.spec.name, self.state)

    async def _live(self) -> None:
        if self.machine.faults.agent_silent:
            self.state = "silent"
            return
        self._verify = await asyncio.to_thread(_verification, self.medium)
        await self._inspect()
        urls = self._api_urls()
        if not urls:
            self.state = "idle: no ipa-api-url"
            return
        url = await self._look_up(urls)
        # TLS context and server die with this block, whatever ends it.
        server = AgentServer(self, VERSION)
        try:
            await self._serve(server)
            self.state = "serving"
            heartbeats = asyncio.create_task(self._heartbeats(url))
            try:
                await self._stop_serving.wait()
            finally:
                heartbeats.cancel()
        finally:
            await server.stop()

    def _api_urls(self) -> list[str]:
        text = self.medium.parameter("ipa-api-url") or ""
        return [url.strip().rstrip("/") for url in text.split(",") if url.strip()]

    async def _serve(self, server: AgentServer) -> None:
        spec = self.machine.spec
        context = None
        if self._api_version >= _HEARTBEAT_API:
            made = await asyncio.to_thread(
                tls.make,
                spec.name,
                spec.address,
                self.machine.folder,
                self._config.get("tls_min_version"),
                self._config.get("tls_cipher_suites"),
            )
            context, self._certificate = made.context, made.certificate
        try:
            port = await server.start(spec.address, spec.agent_port, context)
        except OSError as exc:
            raise FatalAgentError(f"cannot listen on {spec.address}: {exc}") from exc
        scheme = "https" if context is not None else "http"
        self._callback_url = f"{scheme}://{spec.address}:{port}"

    # -- requests to the API --------------------------------------------------------

    def _headers(self, version: tuple[int, int] | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "ironic-rs-sandbox"}
        if version is not None:
            headers[_VERSION_HEADER] = f"{version[0]}.{version[1]}"
        request_id = self.medium.parameter("ipa-global-request-id")
        if request_id:
            headers["X-OpenStack-Request-ID"] = request_id
        return headers

    async def _request(
        self, method: str, url: str, version: tuple[int, int] | None, **arguments: Any
    ) -> tuple[int, str]:
        """Status and text of an answer; 0 and the error if there was none."""
        try:
            async with self.machine.session.request(
                method,
                url,
                headers=self._headers(version),
                ssl=self._verify,
                timeout=_REQUEST_TIMEOUT,
                **arguments,
            ) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            return 0, str(exc) or repr(exc)

    async def _detect_version(self, url: str) -> tuple[int, int]:
        status, text = await self._request("GET", f"{url}/", None)
        try:
            version = json.loads(text)["default_version"]["version"]
            major, minor = version.split(".")
            return int(major), int(minor)
        except (ValueError, KeyError, TypeError, AttributeError):
            self.log(f"cannot read the API version ({status}), taking 1.31")
            return _FALLBACK_API

    async def _inspect(self) -> None:
        callback = self.medium.parameter("ipa-inspection-callback-url")
        if not callback:
            return
        self.state = "inspecting"
        names = self.medium.parameter("ipa-inspection-collectors") or "default,logs"
        data = inventory.inspection(
            self.machine,
            self.medium.parameter("BOOTIF"),
            [name.strip() for name in names.split(",") if name.strip()],
            self.log_lines,
        )
        pause = self.machine.settings.retry_interval
        for _attempt in range(_INSPECTION_ATTEMPTS):
            if await self._send_inspection(callback.split(","), data):
                return
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause *= 2

    async def _send_inspection(self, urls: list[str], data: dict[str, Any]) -> bool:
        """Post to the first URL that takes it; False if another try may help."""
        final = False
        for url in urls:
            self.machine.counters.add("agent.inspections")
            status, text = await self._request("POST", url.strip(), None, json=data)
            self.log(f"inspection data sent to {url}: {status}")
            if status in (200, 202):
                try:
                    self.node_uuid = json.loads(text).get("uuid")
                except (ValueError, AttributeError):
                    self.log("the answer names no node")
                return True
            if 400 <= status < 500 and status != 409:
                self.log(f"inspection data refused: {text[:200]}")
                final = True
        return final

    async def _look_up(self, urls: list[str]) -> str:
        """Find the node; returns the URL that answered.

        :raises FatalAgentError: time is over, or the token was given to someone else.
        """
        self.state = "looking up"
        limit = float(self.medium.parameter("ipa-lookup-timeout") or 600)
        deadline = time.monotonic() + limit
        query = {"addresses": ",".join(self.machine.spec.macs)}
        if self.node_uuid:
            query["node_uuid"] = self.node_uuid
        status, text = 0, "no attempt"
        while time.monotonic() < deadline:
            for url in urls:
                self._api_version = await self._detect_version(url)
                self.machine.counters.add("agent.lookups")
                status, text = await self._request(
                    "GET", f"{url}/v1/lookup", min(self._api_version, _LOOKUP_API), params=query
                )
                self.log(f"lookup at {url}: {status}")
                if status == 200 and self._accept(text):
                    return url
            await asyncio.sleep(self.machine.settings.retry_interval * random.uniform(0.5, 1.5))
        raise FatalAgentError(f"lookup gave up after {limit:.0f} s, last answer {status}: {text}")

    def _accept(self, text: str) -> bool:
        """Take over what the look-up says; False if it cannot be used."""
        try:
            document = json.loads(text)
            self.node_uuid = document["node"]["uuid"]
            self._config = document["config"]
            self._heartbeat_timeout = float(self._config["heartbeat_timeout"])
        except (ValueError, KeyError, TypeError) as exc:
            self.log(f"unusable look-up answer: {exc!r}")
            return False
        self.allow_md5 = bool(self._config.get("agent_md5_checksum_enable"))
        offered = self._config.get("agent_token")
        if isinstance(offered, str) and len(offered) >= _MIN_TOKEN:
            self.token = offered
        elif offered == _HIDDEN and not self.token:
            raise FatalAgentError("the token was handed out before and is not on the medium")
        return True

    async def _heartbeats(self, url: str) -> None:
        settings, faults = self.machine.settings, self.machine.faults
        body: dict[str, Any] = {"callback_url": self._callback_url, "agent_version": VERSION}
        version = min(self._api_version, _HEARTBEAT_API)
        if version >= _LOOKUP_API and self.token:
            body["agent_token"] = self.token
        if version >= _HEARTBEAT_API and self._certificate:
            body["agent_verify_ca"] = self._certificate
        while True:
            self._forced.clear()
            if faults.agent_heartbeat_delay:
                await asyncio.sleep(faults.agent_heartbeat_delay)
            if faults.agent_silent:
                await asyncio.sleep(settings.retry_interval)
                continue
            self.machine.counters.add("agent.heartbeats")
            status, text = await self._request(
                "POST", f"{url}/v1/heartbeat/{self.node_uuid}", version, json=body
            )
            self.log(f"heartbeat: {status}")
            if status == 202:
                pause = self._heartbeat_timeout * random.uniform(0.3, 0.6)
            else:
                self.log(f"heartbeat refused: {text[:200]}")
                pause = settings.retry_interval * random.uniform(1.0, 2.0)
            # Finished commands hurry the next heartbeat, but never without a pause.
            await asyncio.sleep(min(settings.heartbeat_gap, pause))
            try:
                async with asyncio.timeout(max(pause - settings.heartbeat_gap, 0.0)):
                    await self._forced.wait()
            except TimeoutError:
                continue


def _embedded_token(medium: BootMedium) -> str | None:
    """Token of the kernel command line, or of a configuration file on the medium."""
    token = medium.parameter("ipa-agent-token", "ipa_agent_token")
    if token:
        return token
    for name in sorted(medium.files):
        if not name.startswith("etc/ironic-python-agent"):
            continue
        text = medium.files[name].decode("utf-8", "replace")
        if name.endswith("token"):
            return text.strip() or None
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals and key.strip() == "agent_token" and value.strip():
                return value.strip()
    return None


def _verification(medium: BootMedium) -> Verification:
    """How the agent verifies the API: its own CA file, the host's ones, or not at all."""
    if (medium.parameter("ipa-insecure") or "").lower() in ("1", "true", "yes", "on"):
        return False
    certificate = medium.files.get("etc/ironic-python-agent/ironic.crt")
    if certificate is None:
        return True
    return ssl.create_default_context(cadata=certificate.decode("ascii", "replace"))
