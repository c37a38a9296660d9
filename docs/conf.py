"""How Sphinx builds these pages: ``tox -e docs``."""

from __future__ import annotations

project = "ironic_rs"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
html_theme = "alabaster"
