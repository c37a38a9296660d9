#!/usr/bin/env python3
"""Write the pages and tables that are made from the code's own tables.

``python docs/generate.py`` writes them, ``--check`` only tells which are stale
(exit code 1). ``tests/unit/test_docs.py`` runs the check. In a page that people
write, the text between ``<!-- made from: x -->`` and ``<!-- end -->`` is made here.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import contextlib
import io
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import rest_reference
from keystoneauth1 import loading
from oslo_config import cfg, generator
from oslo_policy import generator as policy_generator

from ironic_rs.api import errors as api_errors
from ironic_rs.conf import compat, opts
from ironic_rs.domain import errors, states

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "made by docs/generate.py, do not edit"

LIBRARIES = (
    "cotyledon",
    "keystonemiddleware.",
    "oslo.cache",
    "oslo.concurrency",
    "oslo.config",
    "oslo.db",
    "oslo.log",
    "oslo.messaging",
    "oslo.middleware",
    "oslo.policy",
    "oslo.service.",
)


def library_options() -> str:
    """Names of all options that the libraries register, for ``conf/compat.py``.

    Names that the table has stay: an operator's file may configure a library, such as
    keystonemiddleware, that is not installed here.
    """
    table = ROOT / "ironic_rs" / "conf" / "library_options.txt"
    names = {line for line in table.read_text().splitlines() if not line.startswith("#")}
    for entry in metadata.entry_points(group="oslo.config.opts"):
        if entry.name.startswith(LIBRARIES):
            for group, options in entry.load()():
                names.update(_names(getattr(group, "name", group) or "DEFAULT", options))
    for plugin in loading.get_available_plugin_loaders().values():
        names.update(_names(compat.AUTH_SECTION, plugin.get_options()))
    common = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(),
        *loading.get_auth_common_conf_options(),
    ]
    names.update(_names(compat.AUTH_SECTION, common))
    head = f"# Options of the libraries, one a line: group.name; {NOTICE}.\n"
    return head + "".join(f"{name}\n" for name in sorted(names))


def _names(group: str, options: Iterable[Any]) -> set[str]:
    found = set()
    for option in options:
        name = option.name.replace("-", "_")
        found.add(f"{group}.{name}")
        # keystoneauth has option classes of its own.
        old_names = option.deprecated if hasattr(option, "deprecated") else option.deprecated_opts
        for old in old_names:
            old_group = getattr(old, "group", None) or group
            found.add(f"{old_group}.{(old.name or name).replace('-', '_')}")
    return found


def sample_configuration() -> str:
    """The sample ironic.conf, with the options of the libraries that we use."""
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--config-file", str(ROOT / "etc" / "config-generator.conf")], project="generate")
    text = io.StringIO()
    generator.generate(conf, text)
    return re.sub(r"[ \t]+$", "", text.getvalue(), flags=re.MULTILINE)


def sample_policy() -> str:
    """The sample policy.yaml: every rule with its default, commented out."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "etc" / "policy-generator.conf")
    options = parser["DEFAULT"]
    arguments = ["--namespace", options["namespace"]]
    if options.getboolean("exclude_deprecated"):
        arguments.append("--exclude-deprecated")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        policy_generator.generate_sample(arguments, cfg.ConfigOpts())
    return text.getvalue()


FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Enrolment and availability", (states.VERIFYING, states.AVAILABLE)),
    ("Inspection", (states.INSPECTING, states.INSPECTWAIT, states.INSPECTFAIL)),
    ("Cleaning", (states.CLEANING, states.CLEANWAIT, states.CLEANHOLD, states.CLEANFAIL)),
    ("Deployment", (states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYHOLD, states.DEPLOYFAIL)),
    ("Tear down", (states.DELETING, states.ERROR)),
    ("Service", (states.SERVICING, states.SERVICEWAIT, states.SERVICEHOLD, states.SERVICEFAIL)),
    (
        "Rescue",
        (
            states.RESCUING,
            states.RESCUEWAIT,
            states.RESCUEFAIL,
            states.RESCUE,
            states.UNRESCUING,
            states.UNRESCUEFAIL,
        ),
    ),
    ("Adoption", (states.ADOPTING, states.ADOPTFAIL)),
)
"""Which transient states one diagram shows, with all that leads to and from them."""


def state_machine() -> str:
    """The state machine: a diagram per family of states, and the whole table."""
    lines = [f"<!-- {NOTICE} -->", "# Provision states", ""]
    lines += [
        "Drawn from the table in `ironic_rs/domain/states.py`. A thick frame marks the states in",
        "which a node rests; in the others a conductor or the ramdisk is at work, or a person has",
        "to decide. The word on an arrow is the event.",
        "",
    ]
    for title, family in FAMILIES:
        lines += [f"## {title}", "", "```mermaid", *_diagram(family), "```", ""]
    lines += ["## All states", "", "| State | Meaning | Rests | Target | Events |"]
    lines += ["|---|---|---|---|---|"]
    for name, state in states.STATES.items():
        events = ", ".join(f"{event} → {target}" for event, target in state.events.items())
        rests = "yes" if state.stable else ""
        lines.append(f"| {name} | {state.meaning} | {rests} | {state.target or ''} | {events} |")
    return "\n".join(lines) + "\n"


def _diagram(family: tuple[str, ...]) -> list[str]:
    arrows: dict[tuple[str, str], list[str]] = {}
    for name, state in states.STATES.items():
        for event, target in state.events.items():
            if name in family or target in family:
                arrows.setdefault((name, target), []).append(event)
    lines = ["flowchart LR", "    classDef rests stroke-width:3px"]
    for name in dict.fromkeys(name for arrow in arrows for name in arrow):
        rests = ":::rests" if states.STATES[name].stable else ""
        lines.append(f'    {_id(name)}["{name}"]{rests}')
    for (source, target), events in arrows.items():
        lines.append(f"    {_id(source)} -->|{', '.join(events)}| {_id(target)}")
    return lines


def _id(name: str) -> str:
    return "s_" + re.sub(r"\W", "_", name)


def option_pages() -> str:
    """All options with default and meaning, by group."""
    lines = [f"<!-- {NOTICE} -->", "# Options", ""]
    lines += [
        "Options with *reload* can be changed while a service runs: change the file, send SIGHUP.",
        "",
    ]
    for group, options in opts.list_opts():
        lines += [f"## [{group}]", "", "| Option | Type | Default | Meaning |", "|---|---|---|---|"]
        for option in options:
            # Some options of keystoneauth have a plain class as their type.
            kind = str(getattr(option.type, "type_name", "string")).removesuffix(" value")
            if option.mutable:
                kind += ", *reload*"
            lines.append(
                f"| {option.name} | {kind} | {_default(option)} | {_cell(option.help or '')} |"
            )
        lines.append("")
    return "\n".join(lines)


def _default(option: cfg.Opt) -> str:
    value = option.default if option.sample_default is None else option.sample_default
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, list):
        value = ",".join(map(str, value))
    elif isinstance(value, dict):
        value = ",".join(f"{key}:{item}" for key, item in value.items())
    return f"`{_cell(str(value))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def architecture() -> str:
    """The architecture page with the house drawn anew from the import rules."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    return _fill(page, "the import rules", _house())


def api() -> str:
    """The page about the API with the codes of its errors."""
    page = (ROOT / "docs" / "api.md").read_text()
    return _fill(page, "the error classes", _error_codes())


def _error_codes() -> str:
    rows = {
        cls.machine_code(): (cls.code, _meaning(cls))
        for cls in errors.classes().values()
        if cls.__module__.startswith(("ironic_rs.domain.", "ironic_rs.api."))
    }
    rows |= api_errors.OTHER_CODES
    lines = ["| Code | Status | Text |", "|---|---|---|"]
    for code, (status, text) in sorted(rows.items()):
        lines.append(f"| `{code}` | {status} | {_cell(text)} |")
    return "\n".join(lines)


def _meaning(cls: type[errors.IronicError]) -> str:
    # What only ever comes with a text of its own has none to show.
    inherited = "template" not in cls.__dict__
    return (cls.__doc__ or cls.template).split("\n")[0] if inherited else cls.template


def _house() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = project["tool"]["importlinter"]["contracts"][0]
    floors = [[room.strip() for room in floor.split("|")] for floor in contract["layers"]]
    lines = ["```mermaid", "flowchart TD"]
    for number, floor in enumerate(floors):
        lines.append(f'    subgraph floor{number}[" "]')
        lines += [f"        {room}" for room in floor]
        lines.append("    end")
    lines += [f"    floor{n} --> floor{n + 1}" for n in range(len(floors) - 1)]
    lines += ["```", "", "| Room | What lives there |", "|---|---|"]
    for room in (room for floor in floors for room in floor):
        path = ROOT / "ironic_rs" / room
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        words = (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0]
        lines.append(f"| `{room}/` | {' '.join(words.split())} |")
    return "\n".join(lines)


def _fill(page: str, what: str, text: str) -> str:
    start, end = f"<!-- made from: {what} -->", "<!-- end -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n{text}\n{end}{after}"


def rest_api() -> str:
    """The reference of the REST API."""
    return f"<!-- {NOTICE} -->\n{rest_reference.page()}"


PAGES: dict[str, Callable[[], str]] = {
    "docs/api.md": api,
    "docs/architecture.md": architecture,
    "docs/options.md": option_pages,
    "docs/rest-api.md": rest_api,
    "docs/state-machine.md": state_machine,
    "etc/ironic/ironic.conf.sample": sample_configuration,
    "etc/ironic/policy.yaml.sample": sample_policy,
    "ironic_rs/conf/library_options.txt": library_options,
}


def main(argv: list[str]) -> int:
    """Write or check all pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only tell which pages are stale")
    check = parser.parse_args(argv).check
    # Listing the options of oslo.service imports eventlet, which says that it is old.
    warnings.simplefilter("ignore", DeprecationWarning)
    stale = []
    for name, page in PAGES.items():
        path = ROOT / name
        text = page()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(f"stale: {name}" if check else f"written: {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
