"""``ironic-rs``: API and conductor in one process, which runs without configuration.

Without ``transport_url`` and ``rpc_transport`` in the configuration no message
broker is used: the API calls the conductor directly.  Without ``auth_strategy`` the
API is open, and for that reason listens on the loopback interface only.  Without
``[neutron]`` machines stay in the network that they are in.

Source: specification conductor.md section 6.4, operations.md section 1.
"""

from __future__ import annotations

from ironic_rs.service import backend

backend.activate()

import logging  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402

from oslo_config import cfg  # noqa: E402
from oslo_utils import netutils  # noqa: E402

from ironic_rs.api import app  # noqa: E402
from ironic_rs.api.call import Services  # noqa: E402
from ironic_rs.cmd.conductor import ConductorProcess  # noqa: E402
from ironic_rs.conductor import checks  # noqa: E402
from ironic_rs.conf import CONF, loading  # noqa: E402
from ironic_rs.rpc import transport  # noqa: E402
from ironic_rs.service import process  # noqa: E402
from ironic_rs.service.wsgi import WsgiServer  # noqa: E402

LOG = logging.getLogger(__name__)

NAME = "ironic-rs"


class AllInOne(ConductorProcess):
    """A conductor, and the API that calls it."""

    def __init__(self) -> None:
        super().__init__(single_process=True)
        _tell_ramdisks_of_the_api()
        services = Services(CONF, self.conductor.rpc, self.conductor.ring)
        # Opens the listening socket: a port in use ends the start at once.
        self._server = WsgiServer(app.build(services), CONF)

    def start(self) -> None:
        """Start the conductor, then the API."""
        super().start()
        self._server.start()

    def stop(self, timeout: float | None) -> bool:
        """Stop the API, then the conductor, within ``timeout`` seconds for both."""
        begun = time.monotonic()
        self._server.stop(60.0 if timeout is None else timeout)
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begun))
        return super().stop(left)


def _tell_ramdisks_of_the_api() -> None:
    """Fill in where ramdisks find the API: it is in this very process."""
    api = CONF.api
    if CONF.auth_strategy == "keystone" or api.public_endpoint or api.unix_socket:
        return
    scheme = "https" if api.enable_ssl_api else "http"
    host = netutils.escape_ipv6(CONF.my_ip)
    CONF.set_default("endpoint_override", f"{scheme}://{host}:{api.port}", group="service_catalog")


def _open_to_this_host() -> None:
    """Run without Keystone where nobody asked for it, and within reach of nobody else."""
    if not (_is_default("auth_strategy") and _is_default("host_ip", "api")):
        return
    CONF.set_default("auth_strategy", "noauth")
    CONF.set_default("host_ip", "127.0.0.1", group="api")
    LOG.warning(
        "[DEFAULT]auth_strategy is not set: the API asks for no credentials, and so listens on "
        "127.0.0.1 only. Set auth_strategy = http_basic and [api]host_ip to serve other hosts."
    )


def _leave_networks_alone() -> None:
    """Run without the Networking service where nobody says how to reach it."""
    if CONF.neutron.auth_type is None and _is_default("enabled_network_interfaces"):
        CONF.set_default("default_network_interface", "noop")


def _is_default(option: str, group: str | None = None) -> bool:
    where = CONF.get_location(option, group=group)
    built_in = (cfg.Locations.opt_default, cfg.Locations.set_default)
    return where is None or where.location in built_in


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run both; ends the process."""
    loading.load(argv, NAME)
    backend.announce()
    if not transport.is_configured(CONF):
        CONF.set_default("rpc_transport", "none")
    _open_to_this_host()
    _leave_networks_alone()
    checks.warn(CONF, split=False)
    process.main(NAME, AllInOne, CONF)
