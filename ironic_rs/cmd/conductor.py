"""``ironic-rs-conductor``: the conductor alone.

Source: specification operations.md section 1.
"""

from __future__ import annotations

from ironic_rs.service import backend

backend.activate()

from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402

from ironic_rs.conductor import checks  # noqa: E402
from ironic_rs.conductor.service import Conductor  # noqa: E402
from ironic_rs.conf import CONF, loading  # noqa: E402
from ironic_rs.service import image_server, process  # noqa: E402

NAME = "ironic-rs-conductor"


class ConductorProcess:
    """A conductor, and the server of its boot images where one is wanted.

    :param single_process: the API shares the process.
    """

    def __init__(self, *, single_process: bool = False) -> None:
        self.conductor = Conductor()
        self._single = single_process
        self._images: image_server.ImageServer | None = None

    def start(self) -> None:
        """Start; the image server first, as it completes the configuration."""
        self._images = image_server.start_if_wanted(CONF, single_process=self._single)
        self.conductor.start()

    def stop(self, timeout: float | None) -> bool:
        """Stop the conductor within ``timeout`` seconds; its images last as long."""
        done = self.conductor.stop(timeout)
        self.conductor.drivers.close()
        if self._images is not None:
            self._images.stop()
        return done

    def keep_registered(self) -> None:
        """The coming stop is a planned restart."""
        self.conductor.keep_registered()

    def reloaded(self) -> None:
        """Let the conductor look at its options again."""
        self.conductor.reloaded()

    def healthy(self) -> bool:
        """Tell whether the conductor works."""
        return self.conductor.healthy()


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the conductor; ends the process."""
    loading.load(argv, NAME)
    backend.announce()
    if CONF.rpc_transport == "none":
        raise SystemExit(
            f"{NAME}: [DEFAULT]rpc_transport = none works inside one process only: run "
            "ironic-rs, or set rpc_transport to oslo or json-rpc"
        )
    checks.warn(CONF, split=True)
    process.main(NAME, ConductorProcess, CONF)
