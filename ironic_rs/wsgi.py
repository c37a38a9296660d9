"""The API for WSGI containers (uWSGI, gunicorn, mod_wsgi): ``ironic_rs.wsgi:application``.

The configuration comes from the files that IRONIC_CONFIG_FILE and IRONIC_CONFIG_DIR
name, or from the usual places.

Source: specification operations.md sections 1 and 10.
"""

from __future__ import annotations

from ironic_rs.service import backend

backend.activate()

from ironic_rs.api import app  # noqa: E402
from ironic_rs.conf import loading  # noqa: E402

conf = loading.read([], "ironic-rs-api")
if conf.rpc_transport == "none":
    raise loading.ConfigurationError(
        "[DEFAULT]rpc_transport = none works inside one process only: run ironic-rs instead of a "
        "WSGI container, or set rpc_transport = oslo"
    )
backend.announce()
application = app.build(app.services(conf))
