"""The program ``socat``: shows what another program does at a TCP port.

It listens in a process of its own, which outlives the conductor: a restart does not
cut a console off before it starts it anew.  Its files, named after the node, are in
``[console]terminal_pid_dir``: the number of the process, the script that it runs for
a connection, and what that needs secretly.

Source: specification drivers.md section 5.4 (console); field case 56.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import subprocess
import time
from pathlib import Path

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.console import ports

LOG = log.getLogger(__name__)

PROGRAM = "socat"
#: Seconds between looks at a process that has been told to end.
_POLL = 0.05

#: Running children of this process, which have to be waited for.
_children: dict[str, subprocess.Popen[bytes]] = {}


def place(uuid: str, kind: str) -> Path:
    """Return the file of a node's console: ``pid``, ``sh`` or ``pw``."""
    return Path(CONF.console.terminal_pid_dir or CONF.tempdir) / f"{uuid}.{kind}"


def write_private(path: Path, content: str, mode: int = 0o600) -> None:
    """Write a file that nobody else can read, in place of an older one.

    The directory may be one that everybody writes to: a file or link that somebody
    else has put there is not followed.

    :raises ConsoleError: not possible.
    """
    try:
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, mode), "w") as file:
            file.write(content)
    except OSError as exc:
        raise errors.ConsoleError(error=f"cannot write {path}: {exc.strerror or exc}") from exc


def remove_files(uuid: str) -> None:
    """Remove the files of a node's console."""
    for kind in ("pid", "sh", "pw"):
        with contextlib.suppress(OSError):
            place(uuid, kind).unlink(missing_ok=True)


def command(uuid: str, port: int) -> list[str]:
    """Return the command line that shows a node's script at a port, to one client at a time.

    It is to be run in the directory of the script: socat cannot be told a name with
    a blank in it.
    """
    address = str(CONF.console.socat_address)
    version = ipaddress.ip_address(address).version
    bind = f"[{address}]" if version == 6 else address
    listen = f"TCP{version}-LISTEN:{port},bind={bind},reuseaddr,fork,max-children=1"
    idle = CONF.console.terminal_timeout
    return [PROGRAM, *(["-T", str(idle)] if idle else []), listen, f"EXEC:./{uuid}.sh,pty,stderr"]


def start(uuid: str, port: int, script: str, secret: str) -> None:
    """Start a console; one that runs already is stopped.

    :param script: shell script that is run for each connection.
    :param secret: content of the file ``pw``, which the script may read.
    :raises ConsoleSubprocessFailed: it did not come up.
    :raises ConsoleError: its files cannot be written.
    """
    stop(uuid)
    if not ports.is_free(port):
        raise errors.ConsoleSubprocessFailed(
            node=uuid, error=f"port {port} of {CONF.console.socat_address} is in use"
        )
    path = place(uuid, "sh")
    write_private(path, script, 0o700)
    write_private(place(uuid, "pw"), secret)
    words = command(uuid, port)
    LOG.debug("Node %s: starting its console: %s", uuid, " ".join(words))
    log_path = place(uuid, "log")
    try:
        write_private(log_path, "")
        with log_path.open("wb") as output:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=path.parent,
                start_new_session=True,
            )
        _children[uuid] = process
        write_private(place(uuid, "pid"), str(process.pid))
        _wait_until_ready(uuid, port, process, log_path)
    except OSError as exc:
        stop(uuid)
        raise errors.ConsoleSubprocessFailed(
            node=uuid, error=f"{PROGRAM} cannot be run: {exc.strerror or exc}"
        ) from exc
    except errors.ConsoleError:
        stop(uuid)
        raise
    finally:
        with contextlib.suppress(OSError):
            log_path.unlink(missing_ok=True)


def _wait_until_ready(
    uuid: str, port: int, process: subprocess.Popen[bytes], log_path: Path
) -> None:
    end = time.monotonic() + CONF.console.subprocess_timeout
    while ports.is_free(port):
        if process.poll() is not None:
            said = log_path.read_text(errors="replace").strip().splitlines()
            raise errors.ConsoleSubprocessFailed(
                node=uuid,
                error=f"{PROGRAM} ended with {process.returncode}: {' '.join(said[-2:])}",
            )
        if time.monotonic() >= end:
            raise errors.ConsoleSubprocessFailed(
                node=uuid,
                error=f"it is not ready after {CONF.console.subprocess_timeout} s",
            )
        time.sleep(min(CONF.console.subprocess_checking_interval, _POLL))


def _running(uuid: str) -> int | None:
    """Return the number of a node's running console, None when there is none.

    A number may have come to be another process's: only one that runs the node's
    script is meant.
    """
    try:
        pid = int(place(uuid, "pid").read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    ours = any(word.startswith(b"EXEC:") and uuid.encode() in word for word in words)
    return pid if ours else None


def stop(uuid: str) -> bool:
    """Stop the console of a node and remove its files.

    :returns: False when it did not run.
    :raises ConsoleError: it does not end.
    """
    child = _children.pop(uuid, None)
    pid = _running(uuid)
    if pid is not None:
        _end(uuid, pid, child)
    if child is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(CONF.console.kill_timeout)
    remove_files(uuid)
    return pid is not None


def _end(uuid: str, pid: int, child: subprocess.Popen[bytes] | None) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        # The process and what it runs for a client: they are a group of their own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        end = time.monotonic() + max(CONF.console.kill_timeout, 1)
        while time.monotonic() < end:
            if child is not None:
                child.poll()
            if _running(uuid) is None:
                return
            time.sleep(_POLL)
    raise errors.ConsoleError(error=f"process {pid} of node {uuid} does not end")
