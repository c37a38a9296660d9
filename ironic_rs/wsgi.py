"""The API for WSGI containers (uWSGI, gunicorn, mod_wsgi): ``ironic_rs.wsgi:application``.

The configuration comes from the files that IRONIC_CONFIG_FILE and IRONIC_CONFIG_DIR
name, or from the usual places.

Source: specification operations.md sections 1 and 10.
"""

from __future__ import annotations

from ironic_rs.api import app
from ironic_rs.conf import loading

application = app.build(app.services(loading.read([], "ironic-rs-api")))
