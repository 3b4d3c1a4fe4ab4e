"""Define the tier `unit`, hypothesis's profile and a browser; restore logging and signals after each test."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from mtkit.console import log

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["fixtures.bundles", "fixtures.interop", "fixtures.runs", "fixtures.subjects", "fixtures.text"]

hypothesis.settings.register_profile("mtkit", deadline=None)  # a busy machine is slow, and no test is about speed
hypothesis.settings.load_profile("mtkit")

TESTS = Path(__file__).parent
# Folders and files whose tests train, run whole commands or further processes, or compile kernels.
LONG_TESTS = (
    *("augmentation", "cli", "distributed", "end_to_end", "fuzz", "pages", "runs", "scripts", "serving"),
    *("test_api.py", "test_runtime.py", "corpora/cleaning/test_job.py", "engines/test_parallel.py"),
    *("interop/test_fine_tuning.py", "jobs/test_job.py", "jobs/test_line_job.py", "model/cpu/test_fused.py"),
    *("model/cpu/test_products.py", "model/cpu/test_stored_code.py", "training/update/test_guided_alignment.py"),
    *("training/update/test_micro_batches.py", "training/validation/test_dev_sets.py"),
    "translation/test_consistency.py",
)
LONG_FIXTURES = {"browser", "bundle_of_a_run", "config_of", "make_config"}  # the last two: of tests that train
CHROMIUMS = "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `unit` what is neither slow nor long."""
    assert [name for name in LONG_TESTS if not (TESTS / name).exists()] == []
    for item in items:
        place = item.path.relative_to(TESTS)
        long = any(place.is_relative_to(name) for name in LONG_TESTS)
        fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
        if not (long or item.get_closest_marker("slow") or LONG_FIXTURES.intersection(fixtures)):
            item.add_marker("unit")


@pytest.fixture(scope="module")  # as long as it is open, an event loop runs: tests elsewhere could start none
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
    before = log.level, log.propagate, [*log.handlers]
    yield
    log.setLevel(before[0])
    log.propagate, log.handlers = before[1:]


@pytest.fixture(autouse=True)
def _signals_are_not_ignored() -> Iterator[None]:
    """Handle signals as in a terminal, also if nohup or a script started the tests in the background."""
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
