"""``ironic-rs-sandbox``: simulated machines, and a scripted life of them."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from dataclasses import fields
from pathlib import Path

import aiohttp

from ironic_rs.sandbox import demo
from ironic_rs.sandbox.faults import Faults, parse_option
from ironic_rs.sandbox.lifecycle import progress
from ironic_rs.sandbox.lifecycle.client import LifecycleError
from ironic_rs.sandbox.lifecycle.scenario import Plan, Scenario
from ironic_rs.sandbox.raid import KINDS, parse_kind
from ironic_rs.sandbox.service import ServeOptions, serve
from ironic_rs.sandbox.settings import GIB, Settings, SettingsError

_INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ironic-rs-sandbox",
        description="Simulated machines with Redfish BMCs and ramdisk agents.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_serve(commands.add_parser("serve", help="run simulated machines"))
    _add_lifecycle(
        commands.add_parser(
            "lifecycle", aliases=["run"], help="drive all machines through a whole life"
        )
    )
    files = commands.add_parser("demo-files", help="write a small image and boot files")
    files.add_argument("directory", type=Path)
    files.add_argument("--image-mib", type=int, default=8, help="size of the image")
    return parser


def _add_serve(parser: argparse.ArgumentParser) -> None:
    default = {field.name: field.default for field in fields(Settings)}
    parser.add_argument("--directory", type=Path, required=True, help="only place written to")
    parser.add_argument("--machines", type=int, default=default["machines"])
    parser.add_argument(
        "--bmc",
        choices=["own", "sushy-tools"],
        default="own",
        help="own: one Redfish service for each machine; sushy-tools: its emulator",
    )
    parser.add_argument(
        "--network", default=default["network"], help="loopback network of the machines"
    )
    parser.add_argument("--bmc-port", type=int, default=default["bmc_port"])
    parser.add_argument("--agent-port", type=int, default=default["agent_port"])
    parser.add_argument("--username", default=default["username"])
    parser.add_argument("--password", default=default["password"])
    parser.add_argument(
        "--raid",
        action="append",
        default=[],
        metavar="KIND[:DISKS]",
        help=f"a RAID controller of each machine, may be repeated: {', '.join(KINDS)}",
    )
    parser.add_argument("--disk-gib", type=int, default=10, help="size of the sparse disks")
    for name, text in (
        ("boot-delay", "seconds from power on to the boot"),
        ("power-delay", "seconds that a power switch takes"),
        ("shutdown-delay", "seconds that a graceful shutdown takes"),
        ("heartbeat-gap", "least seconds between two heartbeats"),
        ("retry-interval", "seconds between attempts of an agent"),
    ):
        parser.add_argument(
            f"--{name}", type=float, default=default[name.replace("-", "_")], help=text
        )
    parser.add_argument(
        "--bmc-tls", action="store_true", help="BMCs speak HTTPS with self-signed certificates"
    )
    parser.add_argument(
        "--bmc-ipv6", action="store_true", help="BMCs listen on ::1, at ports from --bmc-port on"
    )
    parser.add_argument("--control-port", type=int, default=6390, help="control and metrics")
    parser.add_argument("--files", type=Path, help="serve this directory by HTTP")
    parser.add_argument("--files-port", type=int, default=6391)
    names = "; ".join(f"{item.name}: {item.metadata['help']}" for item in fields(Faults))
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=VALUE[,...][@MACHINE[,...]]",
        help=f"a fault of all or some machines, may be repeated. {names}",
    )
    parser.add_argument("--debug", action="store_true")


def _add_lifecycle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--api", default="http://127.0.0.1:6385", help="URL of the service")
    parser.add_argument("--control", default="http://127.0.0.1:6390", help="URL of the sandbox")
    parser.add_argument("--image-url", required=True, help="raw image as the machines reach it")
    parser.add_argument("--image-file", type=Path, required=True, help="the same image here")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each stage")
    parser.add_argument("--no-inspect", action="store_true")
    parser.add_argument("--no-undeploy", action="store_true", help="stop when all are active")
    parser.add_argument("--no-config-drive", action="store_true")
    parser.add_argument(
        "--driver-info",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="added to driver_info of every node",
    )
    parser.add_argument("--baremetal", help="path of the baremetal command")
    parser.add_argument("--plain", action="store_true", help="lines instead of a table")
    parser.add_argument("--timings", type=Path, help="write the timings to this JSON file")


def _serve(options: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    settings = Settings(
        directory=options.directory.expanduser().resolve(),
        machines=options.machines,
        network=options.network,
        bmc_port=options.bmc_port,
        bmc_tls=options.bmc_tls,
        bmc_ipv6=options.bmc_ipv6,
        agent_port=options.agent_port,
        username=options.username,
        password=options.password,
        disk_bytes=options.disk_gib * GIB,
        raid=tuple(parse_kind(text) for text in options.raid),
        boot_delay=options.boot_delay,
        power_delay=options.power_delay,
        shutdown_delay=options.shutdown_delay,
        heartbeat_gap=options.heartbeat_gap,
        retry_interval=options.retry_interval,
    )
    asyncio.run(
        serve(
            ServeOptions(
                settings=settings,
                control_port=options.control_port,
                faults=[parse_option(text) for text in options.fault],
                emulator=options.bmc == "sushy-tools",
                files=options.files,
                files_port=options.files_port,
            )
        )
    )
    return 0


async def _live(plan: Plan, plain: bool, timings: Path | None) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        shown = progress.choose(plain)
        scenario = Scenario(plan, session, shown)
        try:
            with shown:
                await scenario.run()
        finally:
            if scenario.timings:
                shown.timings(scenario.timings)
            if timings:
                stages = [
                    {"stage": item.name, "seconds": item.total, "nodes": list(item.nodes)}
                    for item in scenario.timings
                ]
                timings.write_text(json.dumps(stages))


def _lifecycle(options: argparse.Namespace) -> int:
    info = {}
    for text in options.driver_info:
        key, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"--driver-info {text!r} is no KEY=VALUE")
        info[key] = value
    plan = Plan(
        api_url=options.api,
        control_url=options.control,
        image_url=options.image_url,
        image_file=options.image_file,
        stage_timeout=options.timeout,
        inspect=not options.no_inspect,
        undeploy=not options.no_undeploy,
        config_drive=not options.no_config_drive,
        driver_info=info,
        baremetal=options.baremetal,
    )
    asyncio.run(_live(plan, options.plain, options.timings))
    return 0


def _demo_files(options: argparse.Namespace) -> int:
    made = demo.make_files(options.directory, options.image_mib)
    print(f"{made.image_sha256}  {made.image}")
    return 0


def main() -> int:
    """Run a sub-command; 0, 1 with the reason on standard error, 2 for wrong arguments."""
    options = _parser().parse_args()
    try:
        if options.command == "serve":
            return _serve(options)
        if options.command == "demo-files":
            return _demo_files(options)
        return _lifecycle(options)
    except (SettingsError, LifecycleError) as exc:
        print(f"ironic-rs-sandbox: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
