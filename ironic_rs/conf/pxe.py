"""Options of group [pxe].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("pxe")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "images_path",
        default="/var/lib/ironic/images/",
        help="Directory where images are put together for one node.",
    ),
    cfg.StrOpt(
        "instance_master_path",
        default="/var/lib/ironic/master_images",
        help="Directory of the cache of instance images; empty turns the cache off.",
    ),
    cfg.IntOpt(
        "image_cache_size",
        default=20480,
        help="Largest size of the image cache, in MiB.",
    ),
    cfg.IntOpt(
        "image_cache_ttl",
        default=10080,
        help="Minutes after which an unused image leaves the cache.",
    ),
    cfg.StrOpt(
        "tftp_master_path",
        default="/tftpboot/master_images",
        help="Directory of the cache of kernels and ramdisks; empty turns the cache off.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
