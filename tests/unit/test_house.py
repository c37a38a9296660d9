"""The rules of the house that no linter knows (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ironic_rs"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXT = {".cfg", ".conf", ".in", ".ini", ".json", ".md", ".mako", ".py", ".service", ".sh"} | {
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
    "",
}


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return the files of the repository, or of the directory when it is no checkout."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        return tuple(path for path in ROOT.rglob("*") if path.is_file())
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return tuple(path for path in paths if path.is_file())


@cache
def imports_of(module: Path) -> frozenset[str]:
    """Return the dotted names that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return frozenset(found)


def third_party(modules: Iterable[Path] = MODULES) -> set[str]:
    """Return the top-level names outside of the library and ourselves that modules import."""
    tops = {name.partition(".")[0] for module in modules for name in imports_of(module)}
    return tops - sys.stdlib_module_names - {"ironic_rs", "tests"}


def declared() -> set[str]:
    """Return normalised names of the distributions that pyproject.toml asks for at run time."""
    optional = PROJECT["optional-dependencies"]
    extras = set(optional) - {"benchmarks", "docs", "lint", "test"}
    of_extras = [item for extra in extras for item in optional[extra]]
    return {normalised(item) for item in PROJECT["dependencies"] + of_extras}


def normalised(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@pytest.mark.parametrize("module", MODULES, ids=names(MODULES))
def test_a_module_has_at_most_600_lines(module):
    lines = len(module.read_text().splitlines())
    assert lines <= 600


def test_there_is_no_room_for_everything():
    bad = [m for m in MODULES if m.stem in {"utils", "common", "helpers", "misc"}]
    bad += [p for p in PACKAGE.rglob("*") if p.is_dir() and p.name in {"common", "utils"}]
    assert names(bad) == []


def test_nothing_of_the_reference_implementation_is_imported():
    forbidden = {"ironic", "ironic_lib", "ironic_inspector", "ironic_python_agent"}
    assert third_party(MODULES + sorted((ROOT / "tests").rglob("*.py"))) & forbidden == set()


def test_every_imported_library_is_declared():
    distributions = metadata.packages_distributions()
    undeclared = {
        top
        for top in third_party()
        if not {normalised(name) for name in distributions.get(top, [top])} & declared()
    }
    assert undeclared == set()


def test_every_library_that_a_test_imports_is_declared():
    distributions = metadata.packages_distributions()
    of_extras = {
        normalised(item) for extra in PROJECT["optional-dependencies"].values() for item in extra
    }
    undeclared = {
        top
        for top in third_party(
            # What other interpreters run has its own requirements.
            path
            for path in (ROOT / "tests").rglob("*.py")
            if "programs" not in path.parts
        )
        if not {normalised(name) for name in distributions.get(top, [top])}
        & (declared() | of_extras)
    }
    assert undeclared == set()


def test_every_declared_library_is_imported():
    distributions = metadata.packages_distributions()
    imported = {normalised(name) for top in third_party() for name in distributions.get(top, [])}
    dependencies = {normalised(item) for item in PROJECT["dependencies"]}
    assert dependencies - imported == set()


def test_every_dependency_has_a_lower_bound():
    optional = PROJECT["optional-dependencies"]
    everything = PROJECT["dependencies"] + [item for extra in optional.values() for item in extra]
    stubs = [item for item in everything if item.startswith("types-")]
    assert [item for item in everything if ">=" not in item and item not in stubs] == []


def test_every_dependency_is_locked():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    locked = {normalised(line) for line in lines if "==" in line}
    optional = PROJECT["optional-dependencies"]
    extras = [item for extra in optional.values() for item in extra]
    wanted = {normalised(item) for item in PROJECT["dependencies"] + extras}
    assert wanted - locked - {"mysqlclient"} == set()


def test_the_lock_names_no_place_to_download_from():
    assert re.search(r"://|--index|--find-links", (ROOT / "constraints.txt").read_text()) is None


@pytest.mark.parametrize("script", PROJECT["scripts"].values(), ids=PROJECT["scripts"].keys())
def test_a_console_script_has_a_main_function(script):
    module, _, function = script.partition(":")
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_plug_in_that_is_registered_exists():
    missing = []
    for group, plugins in PROJECT["entry-points"].items():
        for name, target in plugins.items():
            module, _, attribute = target.partition(":")
            path = ROOT / module.replace(".", "/")
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if not file.exists() or attribute.partition(".")[0] not in file.read_text():
                missing.append(f"{group}: {name} = {target}")
    assert missing == []


def test_no_stub_is_left():
    """An abstract method needs no body that raises, and a note to do it later is no work done."""
    # Assembled, so that this file does not find itself.
    marks = re.compile(
        "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3 + r"\b", "raise Not" + "ImplementedError"])
    )
    bad = [
        f"{module.relative_to(ROOT)}:{number}"
        for module in MODULES
        for number, line in enumerate(module.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert bad == []


def test_no_file_knows_the_machine_that_it_was_written_on():
    here = re.escape(f"{ROOT}/")
    places = re.compile(rf"{here}|\bpip\.conf\b|index-url")
    bad = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tracked_files()
        if path.suffix in TEXT and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if places.search(line)
    ]
    assert bad == []


def test_vendors_are_known_by_the_table_of_quirks_alone():
    """A condition on a vendor belongs where all of them are seen side by side."""
    vendors = re.compile(
        r"\b(american megatrends|asrock\w*|cisco|dell|fujitsu|gigabyte|hewlett\W\w+|hpe|huawei|"
        r"idrac\d*|ilo\d*|inspur|irmc|lenovo|nvidia|quanta|super ?micro|wiwynn|xclarity)\b",
        re.IGNORECASE,
    )
    names = re.compile(r"idrac-redfish[\w-]*")
    drivers = PACKAGE / "drivers"
    theirs = {
        drivers / "quirks.py",
        # Numbers of manufacturers and their names, without conditions.
        drivers / "ipmi" / "manufacturer.py",
        drivers / "hardware" / "idrac.py",
        *(drivers / "idrac").glob("*.py"),
        # A machine of one of them.
        *(PACKAGE / "sandbox" / "redfish").glob("*.py"),
    }
    bad = [
        f"{module.relative_to(ROOT)}:{number}: {line.strip()}"
        for module in MODULES
        if module not in theirs
        for number, line in enumerate(module.read_text().splitlines(), 1)
        if vendors.search(names.sub("", line))
    ]
    assert bad == []


def test_the_migrations_directory_is_no_package_and_goes_into_the_wheel():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["force-include"] == {"alembic": "ironic_rs/alembic"}
    assert (ROOT / "alembic" / "env.py").exists()
    assert list((ROOT / "alembic" / "versions").glob("*.py"))
    assert not (ROOT / "alembic" / "__init__.py").exists()


def test_every_room_is_a_package_with_a_word_about_itself():
    packages = [path for path in MODULES if path.name == "__init__.py"]
    silent = [path for path in packages if not ast.get_docstring(ast.parse(path.read_text()))]
    assert names(silent) == []


def test_the_unit_tests_mirror_the_rooms():
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    tested = {path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir()}
    assert tested - {"__pycache__"} <= rooms
