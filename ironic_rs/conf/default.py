"""Options of group [DEFAULT].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from oslo_config import cfg
from oslo_utils import netutils

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=["noauth", "keystone", "http_basic"],
        help=(
            'How the API knows its callers. "keystone" validates tokens and enforces the '
            'policy; "http_basic" asks for a name and password of http_basic_auth_user_file; '
            '"noauth" lets everyone do everything and is for development and for stand-alone '
            "use behind another gate."
        ),
    ),
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/ironic/htpasswd",
        help=(
            "File of names and bcrypt password hashes in the form that Apache's htpasswd "
            'writes, used when auth_strategy is "http_basic". It is read again when it changes.'
        ),
    ),
    cfg.BoolOpt(
        "rbac_service_role_elevated_access",
        default=False,
        help=(
            "Let users with the role service in the project rbac_service_project_name work on "
            "the nodes of all projects. Without it they see the nodes that their own project "
            "owns."
        ),
    ),
    cfg.StrOpt(
        "rbac_service_project_name",
        default="service",
        help="Name of the project that the users of other services are in.",
    ),
    cfg.BoolOpt(
        "debug_tracebacks_in_api",
        default=False,
        help=(
            "Put the traceback into the answer to a request that fails with an internal error. "
            "Shows internals to callers: for development."
        ),
    ),
    cfg.StrOpt(
        "default_resource_class",
        mutable=True,
        help="Resource class of nodes that are created without one.",
    ),
    cfg.StrOpt(
        "default_conductor_group",
        default="",
        mutable=True,
        help=(
            "Conductor group of nodes that are created without one. Letters, digits, dots, "
            "underscores and hyphens; case does not matter."
        ),
    ),
    cfg.IntOpt(
        "log_in_db_max_size",
        default=4096,
        help=(
            "How many characters of an error are kept in the last_error and maintenance_reason "
            "of a node."
        ),
    ),
    cfg.IntOpt(
        "hash_partition_exponent",
        default=5,
        help=(
            "The hash ring gets 2 to the power of this number of partitions per conductor. A "
            "larger number spreads nodes more evenly and costs more memory and time. Must be "
            "equal in all services."
        ),
    ),
    cfg.IntOpt(
        "hash_ring_reset_interval",
        default=15,
        help=(
            "Age in seconds at which a service looks again which conductors are alive. A "
            "stopping conductor also goes on to answer for this long, so that nobody calls into"
            " the void."
        ),
    ),
    cfg.StrOpt(
        "hash_ring_algorithm",
        default="md5",
        choices=[
            "blake2b",
            "blake2s",
            "md5",
            "sha1",
            "sha224",
            "sha256",
            "sha384",
            "sha3_224",
            "sha3_256",
            "sha3_384",
            "sha3_512",
            "sha512",
            "shake_128",
            "shake_256",
        ],
        help=(
            "Hash function of the ring. Must be equal in all services; changing it moves most "
            "nodes to another conductor."
        ),
    ),
    cfg.BoolOpt(
        "force_raw_images",
        default=True,
        mutable=True,
        help=(
            "Convert images to raw when they are put into the conductor's cache, so that the "
            "ramdisk can write them to the disk without a copy in its memory."
        ),
    ),
    cfg.FloatOpt(
        "raw_image_growth_factor",
        default=2.0,
        min=1.0,
        help=(
            "How much larger than its file an image is taken to become when it is converted to "
            "raw and does not tell its size."
        ),
    ),
    cfg.StrOpt(
        "isolinux_bin",
        default="/usr/lib/syslinux/isolinux.bin",
        help="Boot loader that goes into boot ISOs for BIOS machines.",
    ),
    cfg.StrOpt(
        "isolinux_config_template",
        default="$pybasedir/images/templates/isolinux.cfg.template",
        help="Template of the boot loader configuration in boot ISOs for BIOS machines.",
    ),
    cfg.StrOpt(
        "grub_config_path",
        default="EFI/BOOT/grub.cfg",
        help=(
            "Where in a boot ISO for UEFI machines the GRUB configuration is put. Depends on "
            "how the GRUB in esp_image was built."
        ),
    ),
    cfg.StrOpt(
        "grub_config_template",
        default="$pybasedir/images/templates/grub.cfg.template",
        help="Template of the GRUB configuration in boot ISOs for UEFI machines.",
    ),
    cfg.StrOpt(
        "ldlinux_c32",
        help=(
            "Library that newer versions of isolinux need beside isolinux_bin. Found by itself "
            "in the usual places when unset."
        ),
    ),
    cfg.StrOpt(
        "esp_image",
        help=(
            "EFI system partition image with the boot loader for boot ISOs for UEFI machines, "
            "used for nodes without a bootloader of their own."
        ),
    ),
    cfg.BoolOpt(
        "parallel_image_downloads",
        default=True,
        mutable=True,
        help="Fetch several images into the cache at the same time.",
    ),
    cfg.IntOpt(
        "image_download_concurrency",
        default=20,
        min=1,
        help="How many images a conductor downloads and converts at the same time.",
    ),
    cfg.StrOpt(
        "my_ip",
        default=netutils.get_my_ipv4(),
        sample_default="127.0.0.1",
        help=(
            "IPv4 address of this host as machines see it, for URLs given to them. Found from "
            "the default route when unset."
        ),
    ),
    cfg.IPOpt(
        "my_ipv6",
        version=6,
        help=(
            "IPv6 address of this host as machines see it, for URLs given to those that boot by "
            "IPv6. [pxe]tftp_server when unset."
        ),
    ),
    cfg.StrOpt(
        "tempdir",
        default=tempfile.gettempdir(),
        sample_default="/tmp",
        help="Directory for temporary files.",
    ),
    cfg.StrOpt(
        "pybasedir",
        default=str(Path(__file__).resolve().parents[1]),
        sample_default="<directory of the installed package>",
        help=("Directory of the installed package, to which the packaged files are relative."),
    ),
    cfg.StrOpt(
        "state_path",
        default="$pybasedir",
        help=(
            "Directory that the default database is kept in. Set it to a directory that "
            "survives an upgrade of the package, such as /var/lib/ironic."
        ),
    ),
    cfg.StrOpt(
        "default_portgroup_mode",
        default="active-backup",
        mutable=True,
        help="Bonding mode of port groups that are created without one.",
    ),
    cfg.StrOpt(
        "host",
        default=socket.getfqdn(),
        sample_default="localhost",
        help=(
            "Name of this conductor: what it is registered and called by, and what it writes on"
            " the nodes that it locks. Must be unique and must not change while it holds locks."
        ),
    ),
    cfg.StrOpt(
        "pin_release_version",
        choices=[
            "10.0",
            "10.1",
            "11.0",
            "11.1",
            "12.0",
            "12.1",
            "12.2",
            "13.0",
            "14.0",
            "15.0",
            "15.1",
            "16.0",
            "16.1",
            "16.2",
            "17.0",
            "18.0",
            "18.1",
            "18.2",
            "19.0",
            "20.0",
            "20.1",
            "20.2",
            "2023.1",
            "2023.2",
            "2024.1",
            "2024.2",
            "2025.1",
            "2025.2",
            "2026.1",
            "2026.2",
            "21.0",
            "21.1",
            "21.2",
            "21.3",
            "21.4",
            "22.0",
            "22.1",
            "23.0",
            "23.1",
            "24.0",
            "24.1",
            "25.0",
            "26.0",
            "26.1",
            "27.0",
            "28.0",
            "29.0",
            "30.0",
            "31.0",
            "32.0",
            "33.0",
            "34.0",
            "35.0",
            "36.0",
            "37.0",
            "38.0",
            "39.0",
            "9.2",
            "antelope",
            "yoga",
            "zed",
        ],
        mutable=True,
        help=(
            "Release whose API, RPC and records to speak during an upgrade, while older "
            "services are still running. Remove it when all are upgraded."
        ),
    ),
    cfg.StrOpt(
        "rpc_transport",
        default="oslo",
        choices=["oslo", "json-rpc", "none"],
        help=(
            'How services call each other: "oslo" by the message broker of transport_url, '
            '"json-rpc" by HTTP as [json_rpc] says, "none" inside one process, for ironic-rs '
            "alone."
        ),
    ),
    cfg.BoolOpt(
        "minimum_memory_warning_only",
        default=False,
        mutable=True,
        help="Only log a warning when memory is short instead of waiting and failing.",
    ),
    cfg.IntOpt(
        "minimum_required_memory",
        default=1024,
        mutable=True,
        help=(
            "Free memory in MiB that must be there before an image is converted or an ISO is "
            "built; 0 turns the check off."
        ),
    ),
    cfg.IntOpt(
        "minimum_memory_wait_time",
        default=15,
        mutable=True,
        help="Seconds between two looks at the free memory.",
    ),
    cfg.IntOpt(
        "minimum_memory_wait_retries",
        default=6,
        mutable=True,
        help="How often to look at the free memory before the operation fails.",
    ),
    cfg.IntOpt(
        "drain_shutdown_timeout",
        default=1800,
        mutable=True,
        help=(
            "Seconds that a conductor waits for its running operations when it is drained "
            "(SIGUSR2); 0 waits for ever."
        ),
    ),
    cfg.StrOpt(
        "webserver_verify_ca",
        default="True",
        mutable=True,
        help=(
            'How to check the certificate of image servers: "True" with the system\'s '
            'authorities, "False" not at all, or the path of a file or directory of '
            "authorities."
        ),
    ),
    cfg.IntOpt(
        "webserver_connection_timeout",
        default=60,
        help=(
            "Seconds that an image server may take to accept a connection and between two "
            "pieces of a download."
        ),
    ),
    cfg.IntOpt(
        "webserver_verify_timeout",
        default=5,
        help="Seconds that an image server may take to answer whether an image exists.",
    ),
    cfg.StrOpt(
        "webserver_tls_minimum_version",
        default="1.3",
        choices=["1.2", "1.3"],
        help="Oldest version of TLS spoken with image servers.",
    ),
    cfg.StrOpt(
        "webserver_tls_ciphers",
        help="OpenSSL cipher list for connections to image servers with TLS 1.2.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_opts(OPTS)
