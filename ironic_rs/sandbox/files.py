"""A loopback file server: what a site has beside its conductors for images and ISOs."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web


class FileServer:
    """Serves a directory, links followed: conductors publish by hard and symbolic links."""

    def __init__(self, directory: Path, address: str, port: int) -> None:
        """:param port: 0 for a free one."""
        application = web.Application()
        application.router.add_static("/", directory, follow_symlinks=True)
        self._runner = web.AppRunner(application, access_log=None)
        self._address, self._port = address, port

    async def start(self) -> str:
        """Listen; returns the URL."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address, self._port)
        await site.start()
        port = self._runner.addresses[0][1]
        return f"http://{self._address}:{port}"

    async def stop(self) -> None:
        await self._runner.cleanup()
