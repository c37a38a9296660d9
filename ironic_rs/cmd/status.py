"""``ironic-rs-status``: whether an upgrade may go on.

The table (or JSON) goes to stdout, log lines to stderr.  Exit codes are those of
specification operations.md section 2.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from ironic_rs.conf import CONF, loading
from ironic_rs.db import session
from ironic_rs.domain import errors
from ironic_rs.service.upgrade_checks import UpgradeChecks

LOG = logging.getLogger(__name__)

PROG = "ironic-rs-status"

ERROR = 255
"""Apart from the results of the checks: 0 success, 1 warning, 2 failure."""


def _add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "Check whether an upgrade may go on"
    upgrade = subparsers.add_parser("upgrade", help=text, description=text)
    upgrade.add_argument("what", choices=["check"], help="what to do")
    upgrade.add_argument("--json", action="store_true", help="print JSON instead of a table")


COMMAND = cfg.SubCommandOpt("command", title="Commands", handler=_add_commands)


def _complain(text: object) -> None:
    sys.stderr.write(f"{PROG}: {text}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    CONF.register_cli_opt(COMMAND)
    try:
        loading.read(argv, PROG)
        session.configure()
        # The library looks for --json there.
        upgradecheck.CONF = CONF
        return int(UpgradeChecks(CONF).check())
    except (errors.IronicError, loading.ConfigurationError, cfg.Error) as e:
        _complain(e)
        return ERROR
    except Exception:
        LOG.exception("The checks could not be made")
        return ERROR
    finally:
        session.dispose()
        CONF.clear()
        CONF.unregister_opt(COMMAND)
