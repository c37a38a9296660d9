"""An ironic.conf of the reference release is accepted; what it sets in vain is named."""

from __future__ import annotations

import logging

import pytest
from oslo_config import cfg

from ironic_rs.conf import compat, loading, opts


@pytest.fixture
def warnings(tmp_path, caplog, monkeypatch):
    """Return a function: warnings logged for a configuration file's text.

    The reference release has a group [gone] here that no release of ours will use.
    """
    table = compat.reference_options() | {"gone.alpha", "gone.beta", "gone.multi"}
    monkeypatch.setattr(compat, "reference_options", lambda: table)

    def report(text: str, *more: str) -> list[str]:
        conf = cfg.ConfigOpts()
        opts.register_all(conf)
        loading.register_log_options(conf)
        files = []
        for number, content in enumerate((text, *more)):
            files.append(tmp_path / f"{number}.conf")
            files[-1].write_text(content)
        conf([], project="ironic", prog="x", default_config_files=[str(f) for f in files])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            compat.report_unused(conf)
        return [record.getMessage() for record in caplog.records]

    return report


def test_the_table_holds_the_855_options_of_the_reference_release():
    lines = list(compat._lines("known_options.txt"))
    assert len(lines) == len(set(lines)) == 855


def test_used_options_are_not_mentioned(warnings):
    assert warnings("[DEFAULT]\nhost = a\n[conductor]\nheartbeat_timeout = 60\n") == []


def test_old_names_of_used_options_are_not_mentioned(warnings):
    assert warnings("[DEFAULT]\ngraceful_shutdown_timeout = 5\n") == []


def test_known_but_unused_options_are_named_in_one_line_with_the_file(warnings, tmp_path):
    (line,) = warnings("[gone]\nalpha = 1\n[api]\nport = 1\n[gone]\nbeta = x\n")
    assert line.endswith(f"{tmp_path}/0.conf: [gone]alpha, [gone]beta")
    assert "does not use" in line


def test_old_names_are_part_of_the_table():
    assert {"vnc.ssl_cert_file", "pxe.pxe_append_params"} <= compat.reference_options()


def test_unknown_options_have_a_line_of_their_own(warnings, tmp_path):
    (line,) = warnings("[conductor]\nheartbeat_timeoutt = 3\n")
    assert line.startswith("Unknown options")
    assert f"{tmp_path}/0.conf: [conductor]heartbeat_timeoutt" in line


def test_each_file_is_named(warnings, tmp_path):
    (line,) = warnings("[gone]\nalpha = x\n", "[gone]\nbeta = 1\n")
    assert f"{tmp_path}/0.conf: [gone]alpha; {tmp_path}/1.conf: [gone]beta" in line


@pytest.mark.parametrize(
    "text",
    [
        "[DEFAULT]\ntransport_url = rabbit://\nrpc_response_timeout = 60\nlog-dir = /x\n",
        "[DEFAULT]\nlog_options = false\nuse_stderr = true\n",
        "[keystone_authtoken]\nauth_type = password\nuser_domain_name = Default\npassword = x\n",
        "[oslo_messaging_rabbit]\nrabbit_quorum_queue = true\n",
        "[oslo_messaging_notifications]\ndriver = messagingv2\n",
        "[oslo_policy]\npolicy_file = x.yaml\n",
        "[oslo_concurrency]\nlock_path = /x\n",
        "[cors]\nallowed_origin = *\n",
        "[database]\nconnection = sqlite://\nmax_retries = 5\n",
        "[neutron]\napplication_credential_id = x\napplication_credential_secret = y\n",
    ],
)
def test_options_of_the_libraries_are_left_to_them(warnings, text):
    assert [line for line in warnings(text) if "Unknown" in line] == []


def test_groups_of_libraries_that_the_reference_release_used_are_known(warnings):
    (line,) = warnings("[profiler]\nenabled = true\n[oslo_reports]\nlog_dir = /x\n")
    assert "does not use" in line


def test_a_key_given_several_times_is_named_once(warnings):
    (line,) = warnings("[gone]\nmulti = 1\nmulti = 2\n")
    assert line.count("[gone]multi") == 1
