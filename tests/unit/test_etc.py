"""The samples that an operator copies fit to what the services do."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from ironic_rs.conf import opts

ETC = Path(__file__).resolve().parents[2] / "etc"
UNITS = sorted((ETC / "systemd").glob("*.service"))
DEFAULTS = {(group, o.dest): o.default for group, options in opts.list_opts() for o in options}


def unit(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return dict(parser["Service"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_waits_for_readiness_and_watches(path):
    service = unit(path)
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > 0
    assert service["KillMode"] == "mixed"
    assert service["ExecReload"].endswith("-HUP $MAINPID")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_the_program_that_it_is_named_after(path):
    assert unit(path)["ExecStart"] == f"/opt/ironic-rs/bin/{path.stem}"


@pytest.mark.parametrize("name", ["ironic-rs", "ironic-rs-conductor"])
def test_a_unit_of_a_conductor_lets_a_drain_end(name):
    patience = int(unit(ETC / "systemd" / f"{name}.service")["TimeoutStopSec"])
    ring = DEFAULTS["DEFAULT", "hash_ring_reset_interval"]
    assert patience > DEFAULTS["DEFAULT", "drain_shutdown_timeout"] + ring
    assert patience > DEFAULTS["conductor", "graceful_shutdown_timeout"] + ring


def test_the_sample_has_every_option():
    text = (ETC / "ironic" / "ironic.conf.sample").read_text()
    missing = [name for _, name in DEFAULTS if f"\n#{name} =" not in text]
    assert missing == []
