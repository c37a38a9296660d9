"""Options of group [agent].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("agent")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "manage_agent_boot",
        default=True,
        help="",
    ),
    cfg.IntOpt(
        "memory_consumed_by_agent",
        default=0,
        mutable=True,
        help="",
    ),
    cfg.BoolOpt(
        "stream_raw_images",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "post_deploy_get_power_state_retries",
        default=6,
        help="",
    ),
    cfg.IntOpt(
        "post_deploy_get_power_state_retry_interval",
        default=5,
        help="",
    ),
    cfg.StrOpt(
        "agent_api_version",
        default="v1",
        help="",
    ),
    cfg.StrOpt(
        "deploy_logs_collect",
        default="on_failure",
        choices=["always", "on_failure", "never"],
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "deploy_logs_storage_backend",
        default="local",
        choices=["local", "swift"],
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "deploy_logs_local_path",
        default="/var/log/ironic/deploy",
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "deploy_logs_swift_container",
        default="ironic_deploy_logs_container",
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "deploy_logs_swift_days_to_expire",
        default=30,
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "image_download_source",
        default="http",
        choices=["swift", "http", "local"],
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "command_timeout",
        default=60,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "max_command_attempts",
        default=3,
        help="",
    ),
    cfg.IntOpt(
        "command_wait_attempts",
        default=100,
        help="",
    ),
    cfg.IntOpt(
        "command_wait_interval",
        default=6,
        help="",
    ),
    cfg.IntOpt(
        "neutron_agent_poll_interval",
        default=2,
        mutable=True,
        help="",
    ),
    cfg.IntOpt(
        "neutron_agent_max_attempts",
        default=100,
        help="",
    ),
    cfg.IntOpt(
        "neutron_agent_status_retry_interval",
        default=10,
        help="",
    ),
    cfg.BoolOpt(
        "require_tls",
        default=True,
        mutable=True,
        help="",
    ),
    cfg.StrOpt(
        "certificates_path",
        default="/var/lib/ironic/certificates",
        help="",
    ),
    cfg.StrOpt(
        "verify_ca",
        default="True",
        help="",
    ),
    cfg.StrOpt(
        "api_ca_file",
        help="",
    ),
    cfg.StrOpt(
        "tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        help="",
    ),
    cfg.StrOpt(
        "tls_ciphers",
        help="",
    ),
    cfg.BoolOpt(
        "allow_md5_checksum",
        default=True,
        help="",
    ),
    cfg.BoolOpt(
        "enable_bios_bootloader_install",
        default=False,
        help="",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
