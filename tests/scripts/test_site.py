"""The documentation as a site: every page is built, and links lead to pages, to the repository, or become text."""

import importlib
import re
from pathlib import Path

import pytest

pytest.importorskip("material", reason="needs the extra docs")
ROOT = Path(__file__).parents[2]


def article(path):
    """The page without its navigation, which links to all pages."""
    return re.findall(r"<article.*</article>", path.read_text(encoding="utf-8"), re.DOTALL)[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("repository", ["", "https://example.org/mtkit"])
def test_the_site_builds_without_warnings(tmp_path, monkeypatch, repository):
    monkeypatch.setenv("REPOSITORY_URL", repository)
    build = importlib.import_module("mkdocs.commands.build").build
    config = importlib.import_module("mkdocs.config").load_config(
        str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True
    )
    build(config)
    home, guide = article(tmp_path / "index.html"), article(tmp_path / "your-data" / "index.html")
    assert 'href="install/"' in home
    assert 'href="../corpora/"' in guide
    assert 'href="../results/#what-cleaning-wins-back"' in guide
    configs = re.findall(r'href="([^"]*/configs)"', guide)
    assert configs == ([f"{repository}/blob/main/configs"] if repository else [])
