"""Options of group [ipmi].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("ipmi")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "command_retry_timeout",
        default=60,
        min=1,
        mutable=True,
        help=(
            "Seconds that one operation on a BMC may take: log-in, lost packets, a busy BMC and "
            "repetitions included. A BMC that does not answer at all when its power state is "
            "read is given up much earlier."
        ),
    ),
    cfg.IntOpt(
        "min_command_interval",
        default=5,
        min=0,
        mutable=True,
        help=(
            "Least seconds between two operations on the same BMC, also after failures. Some "
            "BMCs crash when they are asked too often."
        ),
    ),
    cfg.BoolOpt(
        "use_ipmitool_retries",
        default=False,
        help=(
            "Leave repetitions of what got no answer to the program ipmitool, where that is "
            "used: one run of it takes up to command_retry_timeout."
        ),
    ),
    cfg.BoolOpt(
        "kill_on_timeout",
        default=True,
        mutable=True,
        help=(
            "End the program ipmitool, where that is used, when it reads power state or sensors "
            "for longer than command_retry_timeout."
        ),
    ),
    cfg.BoolOpt(
        "disable_boot_timeout",
        default=True,
        help=(
            "Before a boot device is set, tell the BMC not to forget it when the machine takes "
            "longer than 60 seconds to boot. driver_info ipmi_disable_boot_timeout goes first."
        ),
    ),
    cfg.MultiStrOpt(
        "additional_retryable_ipmi_errors",
        default=[],
        mutable=True,
        help=(
            "More texts of errors after which an operation is tried again, beside a busy BMC, "
            "one without free sessions and the like."
        ),
    ),
    cfg.BoolOpt(
        "debug",
        default=False,
        mutable=True,
        help="Run the program ipmitool with -vvv and log what it says, at level debug.",
    ),
    cfg.BoolOpt(
        "store_cred_in_env",
        default=False,
        help=(
            "Give the password to the program ipmitool in its environment instead of in a "
            "temporary file that only the conductor's user can read."
        ),
    ),
    cfg.ListOpt(
        "cipher_suite_versions",
        default=[],
        help=(
            "Cipher suites to try on BMCs of nodes without ipmi_cipher_suite in driver_info, "
            "weakest first: the last one is tried first, the others when the BMC refuses it. "
            "When empty, 17 and then 3."
        ),
    ),
    cfg.StrOpt(
        "use_ipmitool",
        default="auto",
        choices=["auto", "always", "never"],
        help=(
            "When BMCs are spoken to by the program ipmitool, run for each command, in place of "
            "the built-in client: auto for nodes that ask for what the built-in client does not "
            "know (IPMI 1.5, bridging, cipher suites other than 3 and 17), always, or never: "
            "such nodes do not pass validation then. Serial consoles need the program in any "
            "case. An option of this product only."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
