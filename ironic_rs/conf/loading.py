"""From a command line and files to a ready ``CONF`` (specification configuration.md).

Every command calls :func:`load` once, before anything else. A WSGI container
calls :func:`read`, which raises instead of ending the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from oslo_config import cfg
from oslo_log import log

from ironic_rs.conf import CONF, compat, opts

LOG = log.getLogger(__name__)

PROJECT = "ironic"
"""Names the files: ironic.conf and ironic.conf.d in ~/.ironic, ~, /etc/ironic, /etc."""

LOG_LEVELS = {
    "amqp": "WARNING",
    "amqplib": "WARNING",
    "iso8601": "WARNING",
    "keystoneauth.session": "INFO",
    "keystonemiddleware.auth_token": "INFO",
    "openstack": "WARNING",
    "oslo.messaging": "INFO",
    "oslo_concurrency.lockutils": "WARNING",
    "oslo_messaging": "INFO",
    "oslo_policy": "WARNING",
    "qpid.messaging": "INFO",
    "requests": "WARNING",
    "stevedore": "INFO",
    "urllib3.connectionpool": "WARNING",
}


class ConfigurationError(ValueError):
    """The service cannot start with this configuration; the text says what to change."""


def load(argv: Sequence[str] | None, prog: str, *, needs_database: bool = True) -> cfg.ConfigOpts:
    """Read the configuration for a command and set up logging.

    :param argv: arguments without the program's name; ``None`` takes the process's
    :param prog: name of the command, for ``--help`` and for ``<prog>.conf``
    :param needs_database: check that the default SQLite file can be used
    :raises SystemExit: 1 with one line on stderr for a bad configuration, 2 for bad
        arguments, 0 after ``--help`` and ``--version``
    """
    try:
        return read(argv, prog, needs_database=needs_database)
    except (ConfigurationError, cfg.Error) as error:
        raise SystemExit(f"{prog}: {error}") from error


def read(argv: Sequence[str] | None, prog: str, *, needs_database: bool = True) -> cfg.ConfigOpts:
    """As :func:`load`, for callers that are not the process's main function.

    :raises ConfigurationError: when a value is refused
    :raises cfg.Error: when a file is missing or cannot be parsed
    """
    CONF.clear()
    register_log_options(CONF)
    CONF(
        sys.argv[1:] if argv is None else list(argv),
        project=PROJECT,
        prog=prog,
        version=version(),
        default_config_files=_from_environment("IRONIC_CONFIG_FILE"),
        default_config_dirs=_from_environment("IRONIC_CONFIG_DIR"),
    )
    check(CONF)
    if needs_database:
        check_database(CONF)
    set_up_logging(CONF)
    compat.report_unused(CONF)
    return CONF


def reload(conf: cfg.ConfigOpts) -> bool:
    """Take over the mutable options of the changed files, as SIGHUP asks.

    A file that cannot be used changes nothing and is logged as an error: a typing
    error must not take a running service down.

    :returns: whether the files were taken over
    """
    try:
        _probe(conf)
        conf.mutate_config_files()
    except (ConfigurationError, cfg.Error) as error:
        LOG.error("Configuration not reloaded, the old one stays in force: %s", error)
        return False
    LOG.info("Configuration reloaded; options that are not mutable need a restart")
    return True


def register_log_options(conf: cfg.ConfigOpts) -> None:
    """Register oslo.log's options with the levels of the specification (operations.md 9)."""
    log.register_options(conf)
    levels = dict(pair.split("=", 1) for pair in log.get_default_log_levels())
    log.set_defaults(default_log_levels=[f"{k}={v}" for k, v in (levels | LOG_LEVELS).items()])


def set_up_logging(conf: cfg.ConfigOpts) -> None:
    """Start logging: to stderr when no destination is configured.

    stdout belongs to what a command prints.
    """
    if not (conf.log_file or conf.log_dir or conf.use_journal or conf.use_syslog):
        conf.set_default("use_stderr", True)
    log.setup(conf, PROJECT, version())


def version() -> str:
    """Return the version of the installed distribution."""
    return metadata.version("ironic-rs")


def check(conf: cfg.ConfigOpts) -> None:
    """Look at every value of our options once, so that a bad one stops the start.

    oslo.config itself converts a value only when it is used, perhaps hours later.

    :raises ConfigurationError: naming all bad values
    """
    bad = list(_bad_values(conf))
    if bad:
        raise ConfigurationError("bad configuration: " + "; ".join(bad))


def check_database(conf: cfg.ConfigOpts) -> None:
    """See that a SQLite database file can be made or written.

    :raises ConfigurationError: naming the directory and the options to set
    """
    url = conf.database.connection or ""
    scheme, _, path = url.partition(":///")
    if scheme.split("+")[0] != "sqlite" or not path or path.startswith((":memory:", "file:")):
        return
    file = Path(path.partition("?")[0])
    place = file if file.exists() else file.parent
    if not os.access(place, os.W_OK):
        what = "cannot be written" if place.exists() else "does not exist"
        raise ConfigurationError(
            f"the database {file} cannot be used: {place} {what}. Set [DEFAULT]state_path to a "
            "writable directory or [database]connection to another database"
        )


def _from_environment(variable: str) -> list[str] | None:
    value = os.environ.get(variable)
    return [value] if value else None


def _bad_values(conf: cfg.ConfigOpts) -> Iterator[str]:
    for group, options in opts.list_opts():
        values = conf if group == "DEFAULT" else conf[group]
        for option in options:
            try:
                values[option.dest]
            except (ValueError, cfg.Error) as error:
                yield f"[{group}]{option.name}: {error}"


def _probe(conf: cfg.ConfigOpts) -> None:
    """Read the same files into a second object and check every value there."""
    probe = cfg.ConfigOpts()
    opts.register_all(probe)
    register_log_options(probe)
    probe(
        [],
        project=PROJECT,
        prog=conf.prog,
        default_config_files=list(conf.config_file),
        default_config_dirs=list(conf.config_dirs),
    )
    check(probe)
