"""Options of group [redfish].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf.types import KernelParameters

GROUP = cfg.OptGroup("redfish")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "connection_attempts",
        default=5,
        min=1,
        help=(
            "How often a request is sent to a BMC that cannot be reached, within operation_timeout."
        ),
    ),
    cfg.IntOpt(
        "connection_retry_interval",
        default=4,
        min=1,
        help="Seconds between these attempts.",
    ),
    cfg.IntOpt(
        "connect_timeout",
        default=30,
        min=1,
        help="Seconds to wait for the TCP connection to a BMC.",
    ),
    cfg.IntOpt(
        "read_timeout",
        default=60,
        min=1,
        help="Seconds to wait for the answer of a connected BMC.",
    ),
    cfg.IntOpt(
        "connection_cache_size",
        default=1000,
        min=0,
        help=(
            "Sessions of idle BMCs that are kept. A BMC used within the last two power-sync "
            "intervals always keeps its session and connection, whatever the number of nodes. "
            "0: log in and out for each operation."
        ),
    ),
    cfg.IntOpt(
        "operation_timeout",
        min=1,
        help=(
            "Seconds that a BMC may stay silent, or answer that it is busy, before the "
            "operation fails: connects, retries, waits and a new log-in included. Each "
            "answer starts the time anew. Default: the larger of connect_timeout and "
            "read_timeout. An option of this product only."
        ),
    ),
    cfg.IntOpt(
        "connections_per_bmc",
        default=1,
        min=1,
        help=(
            "Most requests at a time to one BMC, and connections kept to it. Raise it for "
            "managers of many machines behind one address that bear it. An option of this "
            "product only."
        ),
    ),
    cfg.StrOpt(
        "auth_type",
        default="auto",
        choices=["basic", "session", "auto"],
        help=(
            "How to log in: HTTP Basic, a Redfish session, or a session with Basic as the "
            "fallback for BMCs without session service (auto)."
        ),
    ),
    cfg.Opt(
        "kernel_append_params",
        type=KernelParameters(),
        default="nofb vga=normal",
        mutable=True,
        help=(
            "Kernel parameters of the ramdisk, before those that the service adds itself. "
            "kernel_append_params of instance_info or driver_info takes its place; %default% "
            "there stands for this value."
        ),
    ),
    cfg.IntOpt(
        "file_permission",
        default=420,
        help="Permission bits of published boot and firmware images.",
    ),
    cfg.IntOpt(
        "firmware_update_status_interval",
        default=60,
        min=0,
        help=(
            "Seconds between looks at BIOS settings and firmware updates under way. 0: never, "
            "so such a step ends only when a ramdisk comes up."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_fail_interval",
        default=60,
        min=0,
        help="Seconds between looks for firmware updates of steps that have failed. 0: never.",
    ),
    cfg.StrOpt(
        "firmware_source",
        default="http",
        choices=["http", "local", "swift"],
        mutable=True,
        help=(
            "Where the BMC gets firmware images that have an http or https URL: from there "
            "(http), or from the web server of the conductor, which downloads them first "
            "(local). Images with a file URL always come from the conductor. swift is "
            "refused: this release has no object storage."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_required_successes",
        default=3,
        min=0,
        help=(
            "So many times in a row system, manager, chassis and network cards have to be "
            "readable after an update, before the next one, or the end of the step. 0: do "
            "not look."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_validation_interval",
        default=30,
        min=0,
        help=(
            "Seconds between these looks. They are made at most once in "
            "firmware_update_status_interval."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_resource_validation_timeout",
        default=480,
        min=0,
        help=(
            "Seconds after an update within which these looks have to succeed, else the step "
            "fails. 0: do not look."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_bmc_version_check_interval",
        default=30,
        min=0,
        help=(
            "Seconds between looks at the version of a BMC that has updated itself. They are "
            "made at most once in firmware_update_status_interval."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_bmc_timeout",
        default=300,
        min=0,
        help=(
            "Seconds to wait for the new version to show after an update of the BMC, or of "
            "another component whose task has vanished."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_reboot_delay",
        default=300,
        min=0,
        help=(
            "Seconds to leave a BMC alone that updates itself, unless the step says otherwise "
            "(wait)."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_nic_starting_wait",
        default=30,
        min=0,
        help=(
            "Seconds that the update of a network card may be in task state Starting or "
            "Pending before the machine is rebooted for it."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_overall_timeout",
        default=7200,
        min=0,
        help=(
            "Seconds that all firmware updates of a step may take together, and for which a "
            "machine that boots into new BIOS settings keeps its step from timing out. 0: "
            "without end."
        ),
    ),
    cfg.IntOpt(
        "firmware_update_wait_unresponsive_bmc",
        default=0,
        min=0,
        help=(
            "Seconds to leave a BMC alone that updates something else than itself, unless the "
            "step (wait) or driver_info (firmware_update_unresponsive_bmc_wait) says otherwise."
        ),
    ),
    cfg.IntOpt(
        "raid_config_status_interval",
        default=60,
        min=0,
        help=(
            "Seconds between looks at RAID volumes that BMCs create or delete in the "
            "background. 0: never, so such a step ends only by its time-out."
        ),
    ),
    cfg.IntOpt(
        "raid_config_fail_interval",
        default=60,
        min=0,
        help=(
            "Seconds between looks for RAID volumes of steps that have failed: what came of "
            "them is written to raid_config. 0: never."
        ),
    ),
    cfg.IntOpt(
        "boot_mode_config_timeout",
        default=900,
        min=0,
        help=(
            "Seconds to wait for a change of boot mode or secure boot to take effect, the "
            "reboots it needs included. 0: do not wait."
        ),
    ),
    cfg.StrOpt(
        "verify_ca",
        help=(
            "File or directory of trusted certificates, or a boolean, for nodes whose "
            "driver_info has no redfish_verify_ca or plain true."
        ),
    ),
    cfg.StrOpt(
        "tls_minimum_version",
        choices=["1.1", "1.2", "1.3"],
        help="Lowest TLS version to a BMC, unless driver_info says otherwise.",
    ),
    cfg.StrOpt(
        "tls_ciphers",
        help=(
            "Allowed TLS ciphers to a BMC in OpenSSL's format, unless driver_info says otherwise."
        ),
    ),
    cfg.BoolOpt(
        "enable_verify_bmc_clock",
        default=False,
        help=(
            "Check the clock of the BMC when a node is verified, and set it when it is more "
            "than a second off."
        ),
    ),
    cfg.StrOpt(
        "default_inspection_hooks",
        default="validate-interfaces,ports,architecture",
        help="Value of $default_inspection_hooks in inspection_hooks.",
    ),
    cfg.StrOpt(
        "inspection_hooks",
        default="$default_inspection_hooks",
        help="Hooks run on the inventory of out-of-band inspection, in order.",
    ),
    cfg.IntOpt(
        "post_boot_retry_attempts",
        default=6,
        min=1,
        help=(
            "How often a change of boot settings is tried that the BMC refuses while the "
            "machine is in POST."
        ),
    ),
    cfg.IntOpt(
        "post_boot_retry_delay",
        default=5,
        min=1,
        help=(
            "Seconds before the first repetition; doubled each time, up to six times this value."
        ),
    ),
    cfg.IntOpt(
        "power_on_conflict_retry_attempts",
        default=6,
        min=0,
        help=(
            "How often power on is tried again that the BMC refuses as conflicting with a "
            "power-off that has not ended."
        ),
    ),
    cfg.IntOpt(
        "power_on_conflict_retry_interval",
        default=10,
        min=1,
        help="Seconds between these attempts.",
    ),
    cfg.BoolOpt(
        "enable_vmedia_insert_polling",
        default=False,
        help="After inserting virtual media, wait until the BMC says that it is inserted.",
    ),
    cfg.IntOpt(
        "vmedia_insert_timeout",
        default=60,
        min=1,
        help="Longest such wait, in seconds.",
    ),
    cfg.IntOpt(
        "vmedia_insert_poll_interval",
        default=2,
        min=1,
        help="Seconds between looks at the virtual media device during such a wait.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
