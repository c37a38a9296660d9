"""Serial consoles: socat and ipmitool as processes, and a BMC with serial over LAN."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.console import ports, socat
from ironic_rs.drivers.ipmi import turns
from ironic_rs.drivers.ipmi.console import IPMISocatConsole
from tests.harness.ipmi import PASSWORD, USER, ipmi_sim, need_ipmitool
from tests.harness.servers import HOST, free_port, missing, wait_until
from tests.unit.drivers import kit
from tests.unit.drivers.conftest import config  # noqa: F401

PROGRAM = """#!{python} -IS
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "runs"), "a") as runs:
    runs.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[-1] == "activate":
    os.write(1, b"[SOL Session operational]\\r\\n")
    os.execv("/bin/cat", ["cat"])
"""


@pytest.fixture(autouse=True)
def socat_is_there() -> None:
    if shutil.which("socat") is None:
        missing("socat is not installed")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    # With what socat takes for the end of a file's name.
    place = tmp_path / "con,soles: all"
    place.mkdir()
    return place


@pytest.fixture(autouse=True)
def options(config: Callable[..., None], files: Path, port: int) -> Iterator[None]:  # noqa: F811
    config("console", terminal_pid_dir=str(files), socat_address=HOST)
    config("console", port_range=[range(port, port + 1)], kill_timeout=5)
    config("ipmi", min_command_interval=0)
    ports._given.clear()
    turns._bmcs.clear()
    yield
    socat.stop(kit.UUID)
    while Client.all:
        Client.all.pop().close()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named ipmitool that shows what it is sent; returns the list of its runs."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "ipmitool").write_text(PROGRAM.format(python=sys.executable))
    (place / "ipmitool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place / "runs"


def make(**info: Any) -> kit.Task:
    given = {"ipmi_address": HOST, "ipmi_username": USER, "ipmi_password": PASSWORD}
    task = kit.Task(kit.node(driver_info=given | info), console=IPMISocatConsole())
    task.node.console_enabled = True
    return task


class Client:
    """A user at the console."""

    all: ClassVar[list[Client]] = []

    def __init__(self, port: int) -> None:
        self.all.append(self)
        self._sock = socket.create_connection((HOST, port), timeout=30)
        self.seen = b""

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def wait_for(self, data: bytes) -> None:
        while data not in self.seen:
            got = self._sock.recv(4096)
            assert got, f"the console ended after {self.seen!r}"
            self.seen += got

    def ended(self) -> bool:
        """Read to the end."""
        try:
            while self._sock.recv(4096):
                pass
        except OSError:
            pass
        return True

    def close(self) -> None:
        self._sock.close()


def test_a_console_is_started_used_and_stopped(program, files, port):
    task = make()
    console = task.driver.console
    console.validate(task)
    console.start_console(task)
    assert task.node.driver_internal_info["allocated_ipmi_terminal_port"] == port
    assert console.get_console(task) == {"type": "socat", "url": f"tcp://{HOST}:{port}"}
    client = Client(port)
    client.wait_for(b"[SOL Session operational]")
    client.send(b"hello\r")
    client.wait_for(b"hello")
    for kind, mode in (("pid", 0o600), ("sh", 0o700), ("pw", 0o600)):
        assert stat.S_IMODE((files / f"{kit.UUID}.{kind}").stat().st_mode) == mode
    # What an earlier client has left is closed before the console is opened.
    runs = program.read_text().splitlines()
    assert [run.rsplit(" ", 2)[1:] for run in runs] == [["sol", "deactivate"], ["sol", "activate"]]
    assert all(PASSWORD not in run for run in runs)

    console.stop_console(task)
    assert client.ended()
    assert list(files.iterdir()) == []
    assert ports.is_free(port)
    assert "allocated_ipmi_terminal_port" not in task.node.driver_internal_info
    assert program.read_text().splitlines()[-1].endswith("sol deactivate")


def test_one_client_at_a_time_and_the_next_one_after_it(program, port):
    task = make()
    task.driver.console.start_console(task)
    first = Client(port)
    first.wait_for(b"operational")
    first.close()
    second = Client(port)
    second.wait_for(b"operational")
    task.driver.console.stop_console(task)


def test_a_console_that_runs_is_replaced(program, files, port):
    task = make()
    task.driver.console.start_console(task)
    first = int((files / f"{kit.UUID}.pid").read_text())
    task.driver.console.start_console(task)
    second = int((files / f"{kit.UUID}.pid").read_text())
    assert first != second
    assert not Path(f"/proc/{first}").exists()
    Client(port).wait_for(b"operational")


def test_a_console_of_an_earlier_conductor_is_replaced(program, files, port):
    task = make()
    task.driver.console.start_console(task)
    first = int((files / f"{kit.UUID}.pid").read_text())
    # The conductor was killed: nothing is known of its children.
    child = socat._children.pop(kit.UUID)
    ports._given.clear()
    threading.Thread(target=child.wait, daemon=True).start()
    again = make()
    again.node.driver_internal_info.update(task.node.driver_internal_info)
    again.driver.console.start_console(again)
    assert int((files / f"{kit.UUID}.pid").read_text()) != first
    Client(port).wait_for(b"operational")


def test_a_console_that_was_killed_is_started_again(program, files, port):
    task = make()
    task.driver.console.start_console(task)
    os.killpg(int((files / f"{kit.UUID}.pid").read_text()), signal.SIGKILL)
    wait_until(lambda: ports.is_free(port), "the console is gone")
    task.driver.console.start_console(task)
    Client(port).wait_for(b"operational")


def test_no_other_process_is_ever_ended(program, files):
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        (files / f"{kit.UUID}.pid").write_text(str(other.pid))
        task = make()
        task.driver.console.stop_console(task)
        assert other.poll() is None
        assert list(files.iterdir()) == []
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("content", ["", "nonsense", "-1", "99999999"])
def test_a_pid_file_that_makes_no_sense_is_no_console(program, files, content):
    (files / f"{kit.UUID}.pid").write_text(content)
    task = make()
    task.driver.console.stop_console(task)
    assert list(files.iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_not_followed(program, files, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for kind in ("pid", "sh", "pw", "log"):
        (files / f"{kit.UUID}.{kind}").symlink_to(victim)
    task = make()
    task.driver.console.start_console(task)
    assert victim.read_text() == "mine"


def test_a_port_that_is_in_use_is_not_given_out(program, config, port):  # noqa: F811
    with socket.socket() as sock:
        sock.bind((HOST, port))
        sock.listen()
        task = make()
        with pytest.raises(errors.NoFreeIPMITerminalPorts) as caught:
            task.driver.console.start_console(task)
        assert caught.value.code == 503
        other = free_port()
        config("console", port_range=[range(port, port + 1), range(other, other + 1)])
        task.driver.console.start_console(task)
        assert task.node.driver_internal_info["allocated_ipmi_terminal_port"] == other


def test_a_port_is_given_to_one_node(program, port):
    assert ports.allocate() == port
    with pytest.raises(errors.NoFreeIPMITerminalPorts):
        ports.allocate()
    ports.release(port)
    assert ports.allocate() == port


def test_a_port_of_the_node_goes_first(program, config):  # noqa: F811
    own = free_port()
    config("console", port_range=None)
    task = make(ipmi_terminal_port=own)
    task.driver.console.validate(task)
    task.driver.console.start_console(task)
    assert task.driver.console.get_console(task)["url"] == f"tcp://{HOST}:{own}"
    assert "allocated_ipmi_terminal_port" not in task.node.driver_internal_info
    Client(own).wait_for(b"operational")


def test_a_port_of_the_node_that_is_in_use_is_told(program, port, files):
    with socket.socket() as sock:
        sock.bind((HOST, port))
        sock.listen()
        task = make(ipmi_terminal_port=port)
        with pytest.raises(errors.ConsoleSubprocessFailed, match=f"port {port} .* is in use"):
            task.driver.console.start_console(task)
    assert list(files.iterdir()) == []


def test_ipv6_is_shown_in_brackets(config):  # noqa: F811
    config("console", socat_address="2001:db8::1")
    task = make(ipmi_terminal_port=12345)
    url = task.driver.console.get_console(task)["url"]
    assert url == "tcp://[2001:db8::1]:12345"
    words = socat.command("x", 12345)
    assert words[:3] == ["socat", "-T", "600"]
    listen = "TCP6-LISTEN:12345,bind=[2001:db8::1],reuseaddr,fork,max-children=1"
    assert words[3:] == [listen, "EXEC:./x.sh,pty,stderr"]
    config("console", terminal_timeout=0)
    assert "-T" not in socat.command("x", 12345)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"ipmi_terminal_port": "x"}, "ipmi_terminal_port is 'x'"),
        ({"ipmi_terminal_port": 70000}, "ipmi_terminal_port is '70000'"),
        ({"ipmi_protocol_version": "1.5"}, "ipmi_protocol_version 2.0"),
        ({"ipmi_address": "-x"}, "ipmi_address"),
    ],
)
def test_what_is_not_acceptable_is_told(program, info, text):
    task = make(**info)
    with pytest.raises(errors.InvalidParameterValue, match=text):
        task.driver.console.validate(task)


def test_a_console_needs_a_port(program, config):  # noqa: F811
    config("console", port_range=None)
    task = make()
    with pytest.raises(errors.MissingParameterValue, match=r"\[console\]port_range"):
        task.driver.console.validate(task)


@pytest.mark.parametrize("absent", ["ipmitool", "socat"])
def test_missing_programs_are_told(tmp_path, monkeypatch, absent):
    place = tmp_path / "some"
    place.mkdir()
    for name in {"ipmitool", "socat"} - {absent}:
        (place / name).write_text("#!/bin/sh\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(place))
    task = make()
    with pytest.raises(errors.InvalidParameterValue, match=f"program {absent}.*not installed"):
        task.driver.console.validate(task)


def test_a_directory_that_is_not_there_is_told(program, config):  # noqa: F811
    config("console", terminal_pid_dir="/no/such/directory")
    task = make()
    with pytest.raises(errors.ConsoleError, match="/no/such/directory"):
        task.driver.console.start_console(task)
    assert "allocated_ipmi_terminal_port" not in task.node.driver_internal_info


def test_words_of_driver_info_are_no_commands(program, port, tmp_path):
    evil = "$(>x);`>y`'"
    task = make(ipmi_username=evil)
    task.driver.console.start_console(task)
    Client(port).wait_for(b"operational")
    assert all(f" -U {evil} " in run for run in program.read_text().splitlines())


# A BMC


@pytest.fixture
def serial_line() -> Iterator[tuple[int, str]]:
    """A machine's serial port: our end, and the name of the BMC's end."""
    ours, theirs = pty.openpty()
    tty.setraw(ours)
    tty.setraw(theirs)
    yield ours, os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def test_the_console_of_a_machine_by_its_bmc(serial_line, tmp_path, port):
    need_ipmitool()
    ours, name = serial_line
    place = tmp_path / "sim"
    place.mkdir()
    with ipmi_sim(place, sol=name) as (bmc_port, _chassis):
        task = make(ipmi_port=bmc_port, ipmi_cipher_suite=3)
        task.driver.console.validate(task)
        task.driver.console.start_console(task)
        client = Client(port)
        client.wait_for(b"SOL Session operational")
        os.write(ours, b"login: ")
        client.wait_for(b"login: ")
        client.send(b"root\r")
        got = b""
        while b"root\r" not in got:
            got += os.read(ours, 100)
        # The client breaks off; the next one is not locked out by what it leaves.
        client.close()
        again = Client(port)
        again.wait_for(b"SOL Session operational")
        os.write(ours, b"Password: ")
        again.wait_for(b"Password: ")
        task.driver.console.stop_console(task)
        assert again.ended()
