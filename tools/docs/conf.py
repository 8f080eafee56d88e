"""Sphinx settings of `make docs`: README, the pages beside it and docs/ become site/.

The source folder is the repository itself, so a link is right here exactly when it is right on a
code-hosting site; a broken one fails the build.
"""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FRONT_PAGE = "README"
PAGES_BESIDE_IT = ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "benchmarks/README")
REDIRECT = f'<!doctype html><meta http-equiv="refresh" content="0; url={FRONT_PAGE}.html">\n'

project = "EmberQ"
author = "The EmberQ authors"
project_copyright = f"2026 {author}"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
root_doc = FRONT_PAGE
include_patterns = [f"{FRONT_PAGE}.md", *(f"{page}.md" for page in PAGES_BESIDE_IT), "docs/**"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6
suppress_warnings = ["misc.highlighting_failure"]  # a fence in a language Pygments does not know
html_theme = "furo"
html_title = "EmberQ"
html_show_sourcelink = False


def setup(app: Any) -> None:  # Sphinx is in the docs layer only: the type checker has not got it
    app.connect("source-read", add_contents)
    app.connect("doctree-read", unlink_folders)
    app.connect("build-finished", write_index)


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Give the front page a side bar, which its file need not mention."""
    if page == FRONT_PAGE:
        source[0] += "".join(contents())


def contents() -> list[str]:
    beside = [page for page in PAGES_BESIDE_IT if (ROOT / f"{page}.md").exists()]
    folders = sorted(path for path in (ROOT / "docs").iterdir() if path.is_dir())
    return [
        contents_of("Project", [*beside, *pages_in(ROOT / "docs")]),
        *(contents_of(folder.name.capitalize(), pages_in(folder)) for folder in folders),
    ]


def contents_of(caption: str, pages: list[str]) -> str:
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def pages_in(folder: Path) -> list[str]:
    return [str(page.relative_to(ROOT).with_suffix("")) for page in sorted(folder.glob("*.md"))]


def unlink_folders(app: Any, page: Any) -> None:
    """Keep only the text of a link to a folder: right in the repository, but no page here."""
    for link in list(page.findall(lambda node: node.tagname == "pending_xref")):
        if ((ROOT / link["refdoc"]).parent / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def write_index(app: Any, failure: Exception | None) -> None:
    if failure is None:
        Path(app.outdir, "index.html").write_text(REDIRECT)
