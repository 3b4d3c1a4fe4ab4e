"""Hooks of mkdocs: the pages of the site that are not in docs/, and links that work on GitHub and in the site.

On GitHub, docs/install.md links to ../README.md, and README.md to docs/install.md. In the site both are in one folder.
A link to any other file of the repository leads to `repo_url`; without that setting, only its text remains.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # file of the repository to page of the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "data/README.md": "corpora.md",
    "scripts/bench/README.md": "benchmarks.md",
}
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page."""
    name = page.file.src_uri
    source = next((source for source, made in PAGES.items() if made == name), f"docs/{name}")
    return _LINK.sub(lambda link: _rewritten(link, source, config.repo_url or ""), markdown)


def _rewritten(link: re.Match[str], source: str, repository: str) -> str:
    """Return the link as it must read in the site."""
    text, target, anchor = link["text"], link["target"], link["anchor"] or ""
    if re.match(r"[a-z]+:", target):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in PAGES:
        return f"[{text}]({PAGES[path]}{anchor})"
    if path.startswith("docs/"):
        return f"[{text}]({path.removeprefix('docs/')}{anchor})"
    return f"[{text}]({repository.rstrip('/')}/blob/main/{path}{anchor})" if repository else text
