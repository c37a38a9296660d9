"""``ironic-rs-dbsync``: the database schema and its data migrations.

What a command prints goes to stdout, log lines to stderr.  Exit codes are those of
specification operations.md section 2.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from oslo_config import cfg

from ironic_rs.conf import CONF, loading
from ironic_rs.db import migration, online, session
from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

PROG = "ironic-rs-dbsync"

OK = 0
FAILED = 1
INCOMPATIBLE = 2
BAD_ARGUMENT = 127

_BATCH = 50


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _complain(text: str) -> None:
    sys.stderr.write(f"{PROG}: {text}\n")


def check_versions() -> int:
    """OK, or INCOMPATIBLE with the reason on stderr."""
    try:
        unsupported = online.row_versions().unsupported
    except errors.DatabaseVersionTooOld:
        _complain(
            "The database is too old: its tables have no versions. Upgrade it with the "
            "releases in between first."
        )
        return INCOMPATIBLE
    if not unsupported:
        return OK
    found = "; ".join(f"{table}: {', '.join(v)}" for table, v in unsupported.items())
    _complain(
        f"The database has rows of versions that this release does not support ({found}). "
        "Run 'online_data_migrations' of the release that the database comes from, then "
        "run this command again."
    )
    return INCOMPATIBLE


def upgrade(revision: str | None = None) -> int:
    """Check the rows, then bring the schema to a revision."""
    code = check_versions()
    if code == OK:
        migration.upgrade(revision or "head")
    return code


def create_schema() -> int:
    """Create all tables in an empty database."""
    migration.create_schema()
    return OK


def version() -> int:
    """Print the revision of the database."""
    _say(str(migration.version()))
    return OK


def stamp(revision: str | None) -> int:
    """Record a revision."""
    migration.stamp(revision or "head")
    return OK


def new_revision(message: str | None, autogenerate: bool) -> int:
    """Write a migration file and print its path."""
    _say(str(migration.revision(message, autogenerate)))
    return OK


def _migration_options(given: Sequence[str]) -> dict[str, dict[str, str]] | None:
    """Options by migration; None when one is malformed or of no migration."""
    parsed: dict[str, dict[str, str]] = {}
    for text in given:
        target, has_value, value = text.partition("=")
        name, has_key, key = target.partition(".")
        if not (has_value and has_key and key) or name not in online.MIGRATIONS:
            return None
        parsed.setdefault(name, {})[key] = value
    return parsed


def online_data_migrations(max_count: int | None, options: Sequence[str]) -> int:
    """Run the data migrations, at most ``max_count`` rows or all in batches."""
    if max_count is not None and max_count < 1:
        _complain("--max-count must be a positive number.")
        return BAD_ARGUMENT
    parsed = _migration_options(options)
    if parsed is None:
        _complain("--option takes the form MIGRATION.KEY=VALUE.")
        return BAD_ARGUMENT
    for name, keys in parsed.items():
        # The syntax is part of the interface; none of the present ones has options.
        LOG.warning("%s has no option %s, it is ignored.", name, ", ".join(sorted(keys)))
    code = check_versions()
    if code != OK:
        return code
    if max_count is not None:
        complete = _run_migrations(max_count)
    else:
        _say(f"Running batches of {_BATCH} until complete.")
        while not _run_migrations(_BATCH):
            pass
        complete = True
    if complete:
        _say("Data migrations have completed.")
        return OK
    _say("Data migrations have not completed. Please re-run.")
    return FAILED


def _run_migrations(max_count: int) -> bool:
    """Run each migration on what is left of ``max_count`` rows; whether all is done."""
    left, complete = max_count, True
    for name, migrate in online.MIGRATIONS.items():
        if left <= 0:
            # How much is left to do is not known without doing it.
            return False
        total, done = migrate(left)
        _say(f"{name}() migrated {done} of {total} objects.")
        left -= done
        complete = complete and done >= total
    return complete


def _add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    subparsers.required = False

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return subparsers.add_parser(name, help=text, description=text)

    add("upgrade", "Upgrade the schema (the default command)").add_argument(
        "--revision", help="revision to stop at (default: the newest)"
    )
    add("create_schema", "Create the schema in an empty database")
    add("version", "Print the schema revision")
    add("stamp", "Record a revision without changing the schema").add_argument(
        "--revision", help="revision to record (default: the newest)"
    )
    parser = add("revision", "Write a new migration file (for developers)")
    parser.add_argument("-m", "--message", help="what the migration is for")
    parser.add_argument(
        "--autogenerate", action="store_true", help="write what the models differ in"
    )
    parser = add("online_data_migrations", "Bring the rows to the forms of this release")
    parser.add_argument("--max-count", type=int, help="most rows to handle (default: all)")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="MIGRATION.KEY=VALUE",
        help="option of one migration; may be given several times",
    )


COMMAND = cfg.SubCommandOpt("command", title="Commands", handler=_add_commands)


def _dispatch() -> int:
    given = CONF.command
    match given.name:
        case None | "upgrade":
            return upgrade(given.revision if given.name else None)
        case "create_schema":
            return create_schema()
        case "version":
            return version()
        case "stamp":
            return stamp(given.revision)
        case "revision":
            return new_revision(given.message, given.autogenerate)
        case _:
            return online_data_migrations(given.max_count, given.option)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    CONF.register_cli_opt(COMMAND)
    try:
        loading.load(argv, PROG)
        session.configure()
        return _dispatch()
    except errors.IronicError as e:
        _complain(str(e))
        return FAILED
    except Exception:
        LOG.exception("The command failed")
        return FAILED
    finally:
        session.dispose()
        CONF.clear()
        CONF.unregister_opt(COMMAND)
