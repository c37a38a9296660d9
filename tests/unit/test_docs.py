"""Generated pages are fresh and links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ironic_rs.domain import states

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading).lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_generated_pages_are_fresh():
    """``python docs/generate.py`` was run after the last change of the code's tables."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page):
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_index_lists_every_page():
    listed = re.search(r"maxdepth: 1\n\n(.*?)\n```", (ROOT / "docs" / "index.md").read_text(), re.S)
    assert listed
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert set(listed[1].split()) == pages


def test_the_diagrams_show_every_transition():
    text = (ROOT / "docs" / "state-machine.md").read_text()
    arrows = {
        (source, event, target)
        for source, events, target in re.findall(r"s_(\w+) -->\|([^|]+)\| s_(\w+)", text)
        for event in events.split(", ")
    }
    wanted = {
        (re.sub(r"\W", "_", name), event, re.sub(r"\W", "_", target))
        for name, state in states.STATES.items()
        for event, target in state.events.items()
    }
    assert wanted <= arrows
