"""Options of group [conductor].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg, types

GROUP = cfg.OptGroup("conductor")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "workers_pool_size",
        default=300,
        min=3,
        help="Number of threads that a conductor works with, in all.",
    ),
    cfg.IntOpt(
        "reserved_workers_pool_percentage",
        default=5,
        min=0,
        max=50,
        help=(
            "Part of the threads that is kept for the requests of users, out of reach for "
            "periodic tasks and heartbeats."
        ),
    ),
    cfg.IntOpt(
        "heartbeat_interval",
        default=10,
        help="Seconds between two signs of life that a conductor writes into the database.",
    ),
    cfg.IntOpt(
        "heartbeat_timeout",
        default=60,
        max=315576000,
        mutable=True,
        help=(
            "Seconds after the last sign of life at which a conductor counts as dead and its "
            "nodes move to others. A conductor that cannot write for this long stops its own "
            "work."
        ),
    ),
    cfg.IntOpt(
        "sync_power_state_interval",
        default=120,
        help="Seconds between two looks at the power of all machines; 0 turns them off.",
    ),
    cfg.IntOpt(
        "check_provision_state_interval",
        default=60,
        min=0,
        help=(
            "Seconds between two checks for nodes that wait too long for their ramdisk (in "
            "deployment, cleaning, servicing and inspection), for locks of dead conductors, and "
            "for work that lost its conductor. 0 turns all of these off: a node whose conductor "
            "died stays locked until a conductor of that name starts again."
        ),
    ),
    cfg.BoolOpt(
        "clear_image_cache_on_deploy_failure",
        default=False,
        mutable=True,
        help="Drop the cached image of a node whose deployment failed.",
    ),
    cfg.IntOpt(
        "deploy_callback_timeout",
        default=1800,
        min=0,
        help=("Seconds that a deployment waits for the ramdisk before it fails; 0 waits for ever."),
    ),
    cfg.BoolOpt(
        "force_power_state_during_sync",
        default=True,
        mutable=True,
        help=(
            "What to do with a machine whose power was changed behind the service's back: bring"
            " it to the recorded state, or else record what was found."
        ),
    ),
    cfg.IntOpt(
        "power_state_sync_max_retries",
        default=3,
        help=(
            "How often the power of a machine is corrected, or asked for without an answer, "
            "before the node is put into maintenance."
        ),
    ),
    cfg.IntOpt(
        "sync_power_state_workers",
        min=1,
        help=(
            "How many machines are asked for their power at the same time. Default: 32, or "
            "fewer if workers_pool_size has no room for so many; threads are started when they "
            "are needed. With 8, ten thousand machines that answer in 50 ms take more than a "
            "minute. At most a quarter of them wait for machines that failed to answer or were "
            "slow the last time, as long as others have not had their turn."
        ),
    ),
    cfg.IntOpt(
        "periodic_max_workers",
        default=8,
        help=(
            "How many nodes one periodic task works on at the same time. Those that take more "
            "than 10 seconds are not counted, up to half of the threads."
        ),
    ),
    cfg.IntOpt(
        "check_rescue_state_interval",
        default=60,
        min=1,
        help=(
            "Seconds between two checks for nodes that wait too long for their rescue ramdisk. "
            "rescue_callback_timeout = 0 turns them off."
        ),
    ),
    cfg.IntOpt(
        "cache_clean_up_interval",
        default=3600,
        min=0,
        help=(
            "Seconds between two looks for cached images that are too old or too many; 0 turns "
            "them off, and the caches are cleaned up only when there is no room for a new image."
        ),
    ),
    cfg.IntOpt(
        "check_allocations_interval",
        default=60,
        min=0,
        help=(
            "Seconds between two looks for allocations whose conductor is not alive any more; 0 "
            "turns them off."
        ),
    ),
    cfg.IntOpt(
        "node_locked_retry_attempts",
        default=3,
        help="How often to try again to lock a node that somebody else has locked.",
    ),
    cfg.IntOpt(
        "node_locked_retry_interval",
        default=1,
        help="Seconds between two tries to lock a node.",
    ),
    cfg.IntOpt(
        "sync_local_state_interval",
        default=180,
        help=(
            "Seconds between two looks for nodes that this conductor has to take over; 0 turns "
            "them off."
        ),
    ),
    cfg.BoolOpt(
        "automated_clean",
        default=True,
        mutable=True,
        help=(
            "Clean machines before they become available. A node's own automated_clean comes first."
        ),
    ),
    cfg.StrOpt(
        "automated_cleaning_step_source",
        default="autogenerated",
        choices=["autogenerated", "runbook", "hybrid"],
        mutable=True,
        help=(
            "Where the steps of automated cleaning come from: the priorities of the drivers, a "
            "runbook, or a runbook where there is one and else the priorities."
        ),
    ),
    cfg.StrOpt(
        "automated_cleaning_runbook",
        mutable=True,
        help=(
            "Name or UUID of the runbook of automated cleaning, for nodes that have no "
            "other one. Used when automated_cleaning_step_source is runbook or hybrid."
        ),
    ),
    cfg.DictOpt(
        "automated_cleaning_runbook_by_resource_class",
        default={},
        mutable=True,
        help="Runbook (name or UUID) of automated cleaning by resource class of the node.",
    ),
    cfg.BoolOpt(
        "automated_cleaning_runbook_from_node",
        default=False,
        mutable=True,
        help=(
            "Whether a node may name its own runbook of automated cleaning by driver_info "
            "cleaning_runbook. Whoever may change driver_info then decides how the node is "
            "cleaned."
        ),
    ),
    cfg.BoolOpt(
        "automated_cleaning_runbook_validate_traits",
        default=True,
        mutable=True,
        help=(
            "Whether a runbook of automated cleaning must have a trait in common with the "
            "node. A runbook without traits then fits no node."
        ),
    ),
    cfg.BoolOpt(
        "allow_provisioning_in_maintenance",
        default=True,
        mutable=True,
        help=(
            "Let a node in maintenance go on with what it is in the middle of. When off, its "
            "operation is aborted at the next heartbeat."
        ),
    ),
    cfg.IntOpt(
        "clean_callback_timeout",
        default=1800,
        min=0,
        help=("Seconds that a cleaning waits for the ramdisk before it fails; 0 waits for ever."),
    ),
    cfg.IntOpt(
        "service_callback_timeout",
        default=1800,
        min=0,
        help=("Seconds that a servicing waits for the ramdisk before it fails; 0 waits for ever."),
    ),
    cfg.IntOpt(
        "rescue_callback_timeout",
        default=1800,
        min=0,
        help="Seconds that a rescue waits for the ramdisk before it fails; 0 waits for ever.",
    ),
    cfg.IntOpt(
        "inspect_wait_timeout",
        default=1800,
        min=0,
        help="Seconds that an inspection waits for the ramdisk before it fails; 0 for ever.",
    ),
    cfg.IntOpt(
        "soft_power_off_timeout",
        default=600,
        min=1,
        mutable=True,
        help="Seconds that a machine may take to shut its operating system down.",
    ),
    cfg.IntOpt(
        "power_state_change_timeout",
        default=60,
        min=2,
        mutable=True,
        help="Seconds that a machine may take to switch its power on or off.",
    ),
    cfg.IntOpt(
        "power_failure_recovery_interval",
        default=300,
        min=0,
        help=(
            "Seconds between two tries to reach machines that were put into maintenance because"
            " their power could not be read; 0 turns them off."
        ),
    ),
    cfg.StrOpt(
        "conductor_group",
        default="",
        help="Group of this conductor. It manages the nodes of the same group only.",
    ),
    cfg.BoolOpt(
        "allow_deleting_available_nodes",
        default=True,
        mutable=True,
        help=(
            "Let available nodes be deleted. When off, only nodes in enroll, manageable and "
            "adopt failed can."
        ),
    ),
    cfg.StrOpt(
        "rescue_password_hash_algorithm",
        default="sha256",
        choices=["sha256", "sha512"],
        mutable=True,
        help="Hash by which a rescue password is handed to the ramdisk.",
    ),
    cfg.BoolOpt(
        "require_rescue_password_hashed",
        default=True,
        mutable=True,
        help=(
            "Fail a rescue whose ramdisk does not take a hashed password. When false, such a "
            "ramdisk gets the password in plain text."
        ),
    ),
    cfg.MultiOpt(
        "clean_step_priority_override",
        item_type=types.Dict(),
        help=(
            "New priority of a clean step, as interface.step:priority; 0 leaves the step out of"
            " automated cleaning. May be given several times."
        ),
    ),
    cfg.BoolOpt(
        "node_history",
        default=True,
        mutable=True,
        help="Keep a history of what went wrong on each node.",
    ),
    cfg.IntOpt(
        "node_history_max_entries",
        default=300,
        min=0,
        mutable=True,
        help=(
            "How many entries the history of a node keeps, those of the last "
            "node_history_minimum_days not counted. 0 records none, and removes none."
        ),
    ),
    cfg.IntOpt(
        "node_history_minimum_days",
        default=0,
        min=0,
        mutable=True,
        help="Entries of a node's history that are younger than so many days are always kept.",
    ),
    cfg.IntOpt(
        "node_history_cleanup_interval",
        default=86400,
        min=0,
        help=(
            "Seconds between two removals of the entries of nodes' histories that are more than "
            "node_history_max_entries; 0 turns them off."
        ),
    ),
    cfg.IntOpt(
        "node_history_cleanup_batch_count",
        default=1000,
        min=0,
        help=(
            "How many entries of histories are removed by one statement, about: all that one "
            "node has too many are removed together. 0 turns the removal off."
        ),
    ),
    cfg.IntOpt(
        "conductor_cleanup_interval",
        default=86400,
        min=0,
        help="Seconds between two removals of conductors that are gone; 0 turns them off.",
    ),
    cfg.IntOpt(
        "conductor_cleanup_timeout",
        default=1209600,
        min=60,
        mutable=True,
        help=(
            "Seconds without a sign of life after which a conductor counts as gone and is "
            "removed from the list, once it holds no node. Must be at least 3 times "
            "heartbeat_timeout, else none is removed."
        ),
    ),
    cfg.IntOpt(
        "conductor_cleanup_batch_size",
        default=50,
        min=1,
        mutable=True,
        help="Most conductors that are removed at a time.",
    ),
    cfg.MultiOpt(
        "verify_step_priority_override",
        item_type=types.Dict(),
        mutable=True,
        help=(
            "New priority of a verify step, as interface.step:priority; 0 leaves the step out. "
            "May be given several times."
        ),
    ),
    cfg.BoolOpt(
        "enable_health_monitoring",
        default=True,
        mutable=True,
        help="Record at each power sync what health the BMC reports of its machine.",
    ),
    cfg.BoolOpt(
        "automatic_lessee",
        default=True,
        mutable=True,
        help=(
            "Make the project that deploys a node its lessee. Superseded by "
            "automatic_lessee_source."
        ),
    ),
    cfg.StrOpt(
        "automatic_lessee_source",
        default="instance",
        choices=["instance", "request", "none"],
        mutable=True,
        help=(
            "Whom a deployment makes the lessee of a node without one: the project named in the"
            " instance's information, the project of the request, or nobody."
        ),
    ),
    cfg.IntOpt(
        "max_concurrent_deploy",
        default=250,
        min=1,
        mutable=True,
        help=(
            "How many nodes may be deployed at the same time; more are refused. Counted before "
            "the node is locked: requests that come at the same moment may exceed it a little."
        ),
    ),
    cfg.IntOpt(
        "max_concurrent_clean",
        default=50,
        min=1,
        mutable=True,
        help=(
            "How many nodes may be deleted and cleaned at the same time; more are refused. "
            "Counted before the node is locked: requests that come at the same moment may exceed "
            "it a little. Nothing limits inspection and servicing."
        ),
    ),
    cfg.BoolOpt(
        "max_concurrent_per_conductor_group",
        default=False,
        mutable=True,
        help=(
            "Count max_concurrent_deploy and max_concurrent_clean for each conductor group by "
            "itself."
        ),
    ),
    cfg.BoolOpt(
        "poweroff_in_cleanfail",
        default=False,
        help="Switch machines off whose cleaning failed.",
    ),
    cfg.BoolOpt(
        "poweroff_in_servicefail",
        default=False,
        help="Switch machines off whose servicing failed.",
    ),
    cfg.BoolOpt(
        "permit_child_node_step_async_result",
        default=False,
        mutable=True,
        help=("Let steps on child nodes go on in the background. When off, such a step fails."),
    ),
    cfg.IntOpt(
        "max_conductor_wait_step_seconds",
        default=30,
        min=0,
        max=1800,
        mutable=True,
        help=(
            "Longest time in seconds that the reserved wait step may take. It holds a thread "
            "for that long."
        ),
    ),
    cfg.ListOpt(
        "disallowed_deployment_boot_modes",
        default=[],
        item_type=types.String(choices=["uefi", "bios"]),
        mutable=True,
        help="Boot modes with which a node is not deployed.",
    ),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=60,
        deprecated_opts=[cfg.DeprecatedOpt("graceful_shutdown_timeout", group="DEFAULT")],
        help=(
            "Seconds that a stopping conductor waits for its running operations; 0 waits for ever."
        ),
    ),
    cfg.BoolOpt(
        "record_step_flows_in_history",
        default=True,
        help=(
            "Write the beginning and the end of every sequence of steps into the history of the"
            " node."
        ),
    ),
    cfg.BoolOpt(
        "log_step_flows_to_syslog",
        default=False,
        help="Write the beginning and the end of every sequence of steps into the log.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
