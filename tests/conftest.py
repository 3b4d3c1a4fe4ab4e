"""What tests of any folder may ask for, a browser, and what each finds as usual: logging, and signals."""

import shutil
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mtkit.console import log

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["fixtures.bundles", "fixtures.interop", "fixtures.runs", "fixtures.subjects", "fixtures.text"]

CHROMIUMS = "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium without a display: the system's, else playwright's own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install mtkit[dev]")
    installed = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    with sync_api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium starts here; `playwright install chromium` brings one: {str(error)[:200]}")
        yield chromium
        chromium.close()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    before = log.level, log.propagate, log.handlers
    yield
    log.setLevel(before[0])
    log.propagate, log.handlers = before[1:]


@pytest.fixture(autouse=True)
def _signals_are_not_ignored() -> Iterator[None]:
    """As in a terminal, also where the tests were started in the background or by nohup."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
