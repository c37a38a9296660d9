"""Warnings about settings that are legal but hardly meant.

Source: specification conductor.md section 6.1, operations.md section 1.
"""

from __future__ import annotations

import logging

from oslo_config import cfg

LOG = logging.getLogger(__name__)

_CALLBACK_TIMEOUTS = (
    "deploy_callback_timeout",
    "clean_callback_timeout",
    "service_callback_timeout",
)
_IMAGE_PAIRS = (
    ("deploy_kernel_by_arch", "deploy_ramdisk_by_arch"),
    ("rescue_kernel_by_arch", "rescue_ramdisk_by_arch"),
)


def warn(conf: cfg.ConfigOpts, *, split: bool) -> None:
    """Log a warning for each doubtful setting.

    :param split: API and conductor are separate processes.
    """
    for text in doubts(conf, split=split):
        LOG.warning("%s", text)


def doubts(conf: cfg.ConfigOpts, *, split: bool) -> list[str]:
    """Return what is doubtful about the configuration, one text each."""
    found = []
    group = conf.conductor
    if split and (conf.database.connection or "").startswith("sqlite"):
        found.append(
            "[database]connection is SQLite, which serves one host only; several processes "
            "need MySQL, MariaDB or PostgreSQL"
        )
    if group.check_provision_state_interval == 0:
        found.append(
            "[conductor]check_provision_state_interval = 0 turns off not only the time-outs of "
            "deployment, cleaning, servicing and inspection: nodes of a conductor that died "
            "stay locked, and work that lost its conductor is not failed"
        )
    for option in _CALLBACK_TIMEOUTS:
        timeout = getattr(group, option)
        if 0 < timeout <= group.max_conductor_wait_step_seconds:
            found.append(
                f"[conductor]max_conductor_wait_step_seconds "
                f"({group.max_conductor_wait_step_seconds}) reaches [conductor]{option} "
                f"({timeout}): a wait step can time out"
            )
    for kernels, ramdisks in _IMAGE_PAIRS:
        lonely = set(getattr(group, kernels)) ^ set(getattr(group, ramdisks))
        if lonely:
            found.append(
                f"[conductor]{kernels} and {ramdisks} must name the same architectures; only "
                f"one of them has {', '.join(sorted(lonely))}"
            )
    deploy = conf.deploy
    if (
        deploy.shred_random_overwrite_iterations == 0
        and not deploy.shred_final_overwrite_with_zeros
    ):
        found.append(
            "[deploy]shred_random_overwrite_iterations = 0 without "
            "shred_final_overwrite_with_zeros: cleaning erases nothing on disks that have to be "
            "shredded"
        )
    if 0 < group.heartbeat_timeout <= group.heartbeat_interval:
        found.append(
            f"[conductor]heartbeat_timeout ({group.heartbeat_timeout}) must be well above "
            f"heartbeat_interval ({group.heartbeat_interval}): this conductor will often be taken "
            "for dead"
        )
    return found
