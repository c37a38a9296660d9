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
        help=(
            "Boot the ramdisk through the boot interface of the node. Switch it off where "
            "something else does that."
        ),
    ),
    cfg.BoolOpt(
        "stream_raw_images",
        default=True,
        mutable=True,
        help=(
            "Let the ramdisk write raw images to the disk while it downloads them. Needs "
            "force_raw_images."
        ),
    ),
    cfg.IntOpt(
        "post_deploy_get_power_state_retries",
        default=6,
        help=(
            "How often to ask, at the end of a deployment, whether the machine has switched "
            "itself off before it is switched off hard."
        ),
    ),
    cfg.IntOpt(
        "post_deploy_get_power_state_retry_interval",
        default=5,
        help="Seconds between two such questions.",
    ),
    cfg.StrOpt(
        "agent_api_version",
        default="v1",
        help="Version of the ramdisk's command API, part of its URLs.",
    ),
    cfg.StrOpt(
        "deploy_logs_collect",
        default="on_failure",
        choices=["always", "on_failure", "never"],
        mutable=True,
        help="When to fetch the ramdisk's logs at the end of a deployment or a cleaning.",
    ),
    cfg.StrOpt(
        "deploy_logs_storage_backend",
        default="local",
        choices=["local", "swift"],
        mutable=True,
        help="Where to keep the ramdisk's logs.",
    ),
    cfg.StrOpt(
        "deploy_logs_local_path",
        default="/var/log/ironic/deploy",
        mutable=True,
        help="Directory for the ramdisk's logs when they are kept locally.",
    ),
    cfg.StrOpt(
        "image_download_source",
        default="http",
        choices=["swift", "http", "local"],
        mutable=True,
        help=(
            'Where the ramdisk gets images from: "http" directly from the URL in the node or '
            'the image service, "swift" by a temporary URL, "local" from the web server of the '
            "conductor, which caches and checks them first."
        ),
    ),
    cfg.IntOpt(
        "command_timeout",
        default=60,
        mutable=True,
        help="Seconds that the ramdisk may take to answer a command.",
    ),
    cfg.IntOpt(
        "max_command_attempts",
        default=3,
        help="How often to send a command to the ramdisk when the connection fails.",
    ),
    cfg.IntOpt(
        "command_wait_attempts",
        default=100,
        help=(
            "How often to look whether a command of the ramdisk is done where the conductor "
            "waits for it."
        ),
    ),
    cfg.IntOpt(
        "command_wait_interval",
        default=6,
        help="Seconds between two such looks.",
    ),
    cfg.BoolOpt(
        "require_tls",
        default=True,
        mutable=True,
        help="Refuse call-back URLs of ramdisks that do not start with https.",
    ),
    cfg.StrOpt(
        "certificates_path",
        default="/var/lib/ironic/certificates",
        help=(
            "Directory where the certificates are kept that ramdisks made for themselves and "
            "sent with their heartbeats."
        ),
    ),
    cfg.StrOpt(
        "verify_ca",
        default="True",
        help=(
            'How to check the certificate of a ramdisk that sent none: "True" with the system\'s'
            ' authorities, "False" not at all, or the path of a file or directory of '
            "authorities."
        ),
    ),
    cfg.StrOpt(
        "api_ca_file",
        help="Authorities that a ramdisk is told to check the API's certificate with.",
    ),
    cfg.StrOpt(
        "tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        help="Oldest version of TLS spoken with the ramdisk.",
    ),
    cfg.StrOpt(
        "tls_ciphers",
        help="OpenSSL cipher list for connections to the ramdisk with TLS 1.2.",
    ),
    cfg.IntOpt(
        "neutron_agent_max_attempts",
        default=100,
        min=1,
        help=(
            "How often to ask the Networking service whether a port is active, or the agent on a "
            "Smart NIC is alive."
        ),
    ),
    cfg.IntOpt(
        "neutron_agent_status_retry_interval",
        default=10,
        min=0,
        help="Seconds between two such questions.",
    ),
    cfg.IntOpt(
        "neutron_agent_poll_interval",
        default=2,
        min=0,
        mutable=True,
        help=(
            "Seconds after which the agent on a Smart NIC looks for changes. A machine that is on "
            "only for them is kept on for twice as long."
        ),
    ),
    cfg.BoolOpt(
        "allow_md5_checksum",
        default=True,
        help=(
            "Let the ramdisk accept MD5 checksums of images. MD5 protects against accidents only."
        ),
    ),
    cfg.BoolOpt(
        "enable_bios_bootloader_install",
        default=False,
        help="Let the ramdisk install a boot loader on machines that boot by BIOS.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
