"""A double of the part of the API that ramdisks use, and bootable media to boot them.

It answers on the wire as agent-protocol.md sections 3 to 5 say, and acts as the
conductor towards the agent whose certificate it was sent.
"""

from __future__ import annotations

import contextlib
import io
import json
import queue
import ssl
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pycdlib

TOKEN = "t" * 43
NODE = "5d3c4bb0-3a39-4d35-a2f1-0e3ab4a5d1a5"


class RamdiskApi:
    """Serves look-up, heartbeat, continue_inspection and files of a directory.

    Each heartbeat is put into :attr:`heartbeats`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = "1.115"
        self.token_answer = TOKEN
        self.lookup_answers: list[int] = []
        self.heartbeat_answers: list[int] = []
        self.lookups: list[dict[str, Any]] = []
        self.inspection_answers: list[int] = []
        self.inspections: list[dict[str, Any]] = []
        self.heartbeats: queue.Queue[dict[str, Any]] = queue.Queue()
        self.config: dict[str, Any] = {"heartbeat_timeout": 300}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.daemon = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> RamdiskApi:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def heartbeat(self) -> dict[str, Any]:
        """The next heartbeat: body, version, path."""
        return self.heartbeats.get(timeout=60)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/":
                    self.answer(200, {"default_version": {"version": api.version}})
                elif parts.path == "/v1/lookup":
                    self.look_up({key: value[0] for key, value in parse_qs(parts.query).items()})
                else:
                    self.send_file(api.directory / parts.path.lstrip("/"))

            def look_up(self, query: dict[str, str]) -> None:
                version = self.headers.get("X-OpenStack-Ironic-API-Version")
                api.lookups.append({**query, "version": version})
                status = api.lookup_answers.pop(0) if api.lookup_answers else 200
                config = {**api.config, "agent_token": api.token_answer}
                self.answer(status, {"node": {"uuid": NODE}, "config": config})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                version = self.headers.get("X-OpenStack-Ironic-API-Version")
                if self.path.startswith("/v1/continue_inspection"):
                    api.inspections.append({**body, "version": version})
                    status = api.inspection_answers.pop(0) if api.inspection_answers else 202
                    self.answer(status, {"uuid": NODE})
                    return
                status = api.heartbeat_answers.pop(0) if api.heartbeat_answers else 202
                self.answer(status, None)
                api.heartbeats.put({**body, "version": version, "path": self.path})

            def send_file(self, path: Path) -> None:
                if not path.is_file():
                    self.answer(404, {})
                    return
                content = path.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def handle(self) -> None:
                # Machines that lose power close connections without a word.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def answer(self, status: int, document: Any) -> None:
                content = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: Any) -> None:
                """Tests read the lists instead."""

        return Handler


class Conductor:
    """Talks to the agent as a conductor does: pinned certificate, token."""

    def __init__(self, heartbeat: dict[str, Any], token: str = TOKEN) -> None:
        self.url = heartbeat["callback_url"]
        self.token = token
        self._context = None
        if self.url.startswith("https"):
            self._context = ssl.create_default_context(cadata=heartbeat["agent_verify_ca"])

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON document of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)
        )
        try:
            with opener.open(request, timeout=60) as response:
                return response.status, json.load(response)
        except HTTPError as exc:
            with exc:
                return exc.code, json.load(exc)

    def command(self, name: str, wait: bool = False, **params: Any) -> dict[str, Any]:
        """Send a command; its result."""
        path = f"/v1/commands/?wait={str(wait).lower()}&agent_token={self.token}"
        status, document = self.request("POST", path, {"name": name, "params": params})
        assert status == 200, document
        return document

    def commands(self) -> list[dict[str, Any]]:
        """All results so far."""
        status, document = self.request("GET", f"/v1/commands/?agent_token={self.token}")
        assert status == 200, document
        return document["commands"]

    def step(
        self,
        kind: str,
        interface: str,
        step: str,
        node: dict[str, Any] | None = None,
        **args: Any,
    ) -> dict[str, Any]:
        """Run a step to its end; the result of the command."""
        return self.command(
            f"{kind}.execute_{kind}_step",
            wait=True,
            step={"interface": interface, "step": step, "args": args, "priority": 10},
            node={"uuid": NODE, **(node or {})},
            ports=[],
            **{f"{kind}_version": None},
        )


def make_iso(
    path: Path,
    parameters: dict[str, str],
    *,
    loader: str = "grub",
    files: dict[str, bytes] | None = None,
    kernel: bool = True,
    bootable: bool = True,
) -> None:
    """Write an ISO that boots a ramdisk, for UEFI (``grub``) or BIOS (``isolinux``)."""
    line = " ".join(f"{key}={value}" for key, value in parameters.items())
    if loader == "grub":
        name = "EFI/BOOT/grub.cfg"
        text = f"menuentry boot {{\n    linux /vmlinuz nofb {line} --\n    initrd /initrd\n}}\n"
    else:
        name = "isolinux/isolinux.cfg"
        text = f"default boot\nlabel boot\nkernel /vmlinuz\nappend initrd=/initrd {line} --\n"
    content = {name: text.encode(), "initrd": b"initrd", **(files or {})}
    if kernel:
        content["vmlinuz"] = b"kernel"
    content["efiboot.img"] = bytes(2048)
    image = pycdlib.PyCdlib()
    image.new(interchange_level=3, rock_ridge="1.09", vol_ident="VMEDIA_BOOT_ISO")
    made: set[str] = set()
    for number, (full, data) in enumerate(sorted(content.items())):
        folder = ""
        short = ""
        for part in full.split("/")[:-1]:
            short += f"/D{abs(hash(folder + part)) % 10**6}"
            folder += f"/{part}"
            if folder not in made:
                image.add_directory(short, rr_name=part)
                made.add(folder)
        leaf = full.rsplit("/", 1)[-1]
        target = "/BOOT.IMG;1" if leaf == "efiboot.img" else f"{short}/F{number}.;1"
        image.add_fp(io.BytesIO(data), len(data), target, rr_name=leaf)
    if bootable:
        image.add_eltorito("/BOOT.IMG;1", efi=True)
    image.write(str(path))
    image.close()
