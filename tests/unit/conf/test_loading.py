"""From files, environment and arguments to a checked configuration."""

from __future__ import annotations

import logging
import os

import pytest
from oslo_config import cfg

from ironic_rs.conf import CONF, loading, opts


@pytest.fixture(autouse=True)
def untouched(monkeypatch, tmp_path):
    """Keep the machine's files out and leave logging and CONF as they were."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("IRONIC_CONFIG_FILE", raising=False)
    monkeypatch.delenv("IRONIC_CONFIG_DIR", raising=False)
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    for handler in set(root.handlers) - set(before[0]):
        handler.close()
    root.handlers[:], root.level = before
    CONF.reset()


@pytest.fixture
def config(tmp_path):
    """Return a function writing an ironic.conf and giving its path as text."""

    def write(text: str, name: str = "ironic.conf") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n" + text)
        return str(path)

    return write


def load(*arguments: str, **options: bool) -> cfg.ConfigOpts:
    return loading.load(arguments, prog="ironic-rs-test", **options)


def test_a_file_named_on_the_command_line_is_read(config):
    conf = load("--config-file", config("[api]\nport = 7000\n"))
    assert conf.api.port == 7000


def test_the_operators_file_in_the_home_directory_is_found(config):
    config("[api]\nport = 7001\n", ".ironic/ironic.conf")
    assert load().api.port == 7001


def test_the_directory_of_snippets_is_read_after_the_file(config):
    config("[api]\nport = 7001\n[conductor]\nheartbeat_timeout = 77\n", ".ironic/ironic.conf")
    config("[api]\nport = 7002\n", ".ironic/ironic.conf.d/10-port.conf")
    conf = load()
    assert (conf.api.port, conf.conductor.heartbeat_timeout) == (7002, 77)


def test_the_environment_replaces_the_default_file(config, monkeypatch):
    config("[api]\nport = 7001\n", ".ironic/ironic.conf")
    monkeypatch.setenv("IRONIC_CONFIG_FILE", config("[api]\nport = 7003\n", "other.conf"))
    assert load().api.port == 7003


def test_the_environment_replaces_the_default_directory(config, monkeypatch, tmp_path):
    config("[api]\nport = 7004\n", "elsewhere/a.conf")
    config("", ".ironic/ironic.conf")
    monkeypatch.setenv("IRONIC_CONFIG_DIR", str(tmp_path / "elsewhere"))
    assert load().api.port == 7004


def test_a_single_option_can_come_from_the_environment(config, monkeypatch):
    monkeypatch.setenv("OS_API__PORT", "7005")
    assert load("--config-file", config("[api]\nport = 7000\n")).api.port == 7005


def test_without_any_file_the_defaults_are_used(monkeypatch, tmp_path):
    monkeypatch.setenv("OS_DEFAULT__STATE_PATH", str(tmp_path))
    conf = load()
    assert conf.api.port == 6385
    assert conf.database.connection == f"sqlite:///{tmp_path}/ironic.sqlite"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[api]\nport = many\n", r"\[api\]port"),
        ('[redfish]\nkernel_append_params = a="b\n', r"\[redfish\]kernel_append_params.*malformed"),
        ("[conductor]\nfile_url_allowed_paths = /etc\n", r"file_url_allowed_paths.*system"),
        ("[conductor]\nworkers_pool_size = 1\n", r"\[conductor\]workers_pool_size"),
    ],
)
def test_a_bad_value_stops_the_start_and_is_named(config, text, named):
    with pytest.raises(loading.ConfigurationError, match=named):
        loading.read(["--config-file", config(text)], "ironic-rs-test")


def test_all_bad_values_are_named_at_once(config):
    text = "[api]\nport = x\n[conductor]\nheartbeat_interval = y\n"
    with pytest.raises(ValueError, match=r"\[api\]port.*\[conductor\]heartbeat_interval"):
        loading.read(["--config-file", config(text)], "ironic-rs-test")


def test_a_command_ends_with_code_1_and_one_line(config):
    with pytest.raises(SystemExit) as end:
        load("--config-file", config("[api]\nport = x\n"))
    assert str(end.value).startswith("ironic-rs-test: bad configuration: [api]port")


def test_a_missing_file_ends_the_command():
    with pytest.raises(SystemExit) as end:
        load("--config-file", "/nowhere/ironic.conf")
    assert "/nowhere/ironic.conf" in str(end.value)


def test_a_bad_argument_ends_with_code_2(capsys):
    with pytest.raises(SystemExit) as end:
        load("--no-such-thing")
    assert end.value.code == 2


def test_the_version_is_that_of_the_distribution(capsys):
    with pytest.raises(SystemExit) as end:
        load("--version")
    assert end.value.code == 0
    assert loading.version() in "".join(capsys.readouterr())


def test_a_state_path_that_does_not_exist_is_explained(config, tmp_path):
    file = config(f"state_path = {tmp_path}/missing\n")
    with pytest.raises(SystemExit) as end:
        load("--config-file", file)
    assert f"{tmp_path}/missing does not exist" in str(end.value)
    assert "[DEFAULT]state_path" in str(end.value)


def test_a_state_path_that_cannot_be_written_is_explained(config, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SystemExit) as end:
        load("--config-file", config(""))
    assert "cannot be written" in str(end.value)


def test_a_service_without_a_database_does_not_look_at_the_state_path(config, tmp_path):
    load("--config-file", config(f"state_path = {tmp_path}/missing\n"), needs_database=False)


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql+pymysql://u:p@h/ironic", "postgresql://h/i"]
)
def test_other_databases_are_not_looked_for_in_the_file_system(config, url):
    load("--config-file", config(f"[database]\nconnection = {url}\n"))


def test_log_lines_go_to_stderr_when_nothing_is_configured(config):
    assert load("--config-file", config("")).use_stderr is True


def test_log_lines_go_to_the_configured_file_alone(config, tmp_path):
    conf = load("--config-file", config(f"log_file = {tmp_path}/x.log\n"))
    assert conf.use_stderr is False


def test_chatty_libraries_are_quiet(config):
    levels = load("--config-file", config("")).default_log_levels
    assert "oslo_messaging=INFO" in levels
    assert "openstack=WARNING" in levels


def test_sighup_takes_over_mutable_options_only(config):
    text = "[conductor]\nheartbeat_timeout = {}\nheartbeat_interval = {}\n"
    conf = load("--config-file", config(text.format(61, 11)))
    config(text.format(62, 12))
    assert loading.reload(conf) is True
    assert (conf.conductor.heartbeat_timeout, conf.conductor.heartbeat_interval) == (62, 11)


@pytest.mark.parametrize("broken", ["[api]\nmax_limit = x\n", "not an ini file"])
def test_sighup_with_a_broken_file_keeps_the_old_values(config, broken, caplog):
    conf = load("--config-file", config("[api]\nmax_limit = 10\n"))
    config(broken)
    logging.getLogger().addHandler(caplog.handler)
    assert loading.reload(conf) is False
    assert conf.api.max_limit == 10
    assert "not reloaded" in caplog.text


def test_the_process_arguments_are_the_default(config, monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "--config-file", config("[api]\nport = 7006\n")])
    assert loading.load(None, prog="ironic-rs-test").api.port == 7006


def test_every_module_of_options_is_listed():
    groups = [group for group, _ in opts.list_opts()]
    assert groups[0] == "DEFAULT"
    assert groups[1:] == sorted(groups[1:])
    assert len(groups) == len(set(groups))
