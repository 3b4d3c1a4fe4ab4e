"""Define the tier `unit`, how tests are collected, and a browser; restore logging and signals after each test."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from mtkit.console import log
from mtkit.cores import usable_cores

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The tests start hundreds of processes, and three collect them: without bytecode, each would compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

FIXTURES = [f"fixtures.{name}" for name in ("bundles", "interop", "m2m100", "runs", "subjects", "text")]

# Each run draws other examples, so that many short runs try as much as a long one. The workflow in .github runs the
# second profile, with --hypothesis-profile. No deadlines: a busy machine is slow, and no test is about speed.
hypothesis.settings.register_profile("mtkit", deadline=None, max_examples=25)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=300)
hypothesis.settings.load_profile("mtkit")

TESTS = Path(__file__).parent
# Folders, files and tests that train, run whole commands or further processes, or compile kernels.
LONG_TESTS = (
    *("augmentation", "cli", "distributed", "end_to_end", "fuzz", "pages", "runs", "scripts", "serving"),
    *("test_api.py", "test_runtime.py", "corpora/cleaning/test_job.py", "engines/test_parallel.py"),
    *("interop/test_browser_reading.py", "interop/test_fine_tuning.py"),
    *("jobs/test_job.py", "jobs/test_line_job.py", "jobs/test_on_ray.py"),
    *("model/cpu/test_fused.py", "model/cpu/test_products.py", "model/cpu/test_stored_code.py"),
    "training/update/test_guided_alignment.py",
    *("training/update/test_micro_batches.py", "training/validation/test_dev_sets.py"),
    *("adaptation/test_adapt.py", "adaptation/test_imported_base.py", "adaptation/test_starting_again.py"),
    "translation/test_consistency.py",
    "data/test_subwords.py::test_another_process_draws_the_same",
    "evaluation/metrics/test_scores.py::test_every_figure_is_that_of_the_sacrebleu_command",
    "evaluation/metrics/test_scores.py::test_heavy_packages_wait_until_they_are_needed",
    "evaluation/metrics/test_scores.py::test_quick_scores_are_those_of_the_command",
    "evaluation/metrics/test_significance.py::test_processes_change_nothing",
    "model/test_relative_positions.py::test_compiled_attention_is_the_same_at_every_length",
    "model/test_ssru.py::test_it_learns_to_reverse_digits",
    "pair_files/test_lines.py::test_one_line_that_never_ends_fills_no_memory",
    "pair_files/test_tmx.py::test_a_file_of_any_size_is_read_in_the_same_memory",
    "training/update/test_optimizer_step.py::test_layers_are_compiled_except_those_with_a_loop_over_positions",
    "translation/test_terminology.py::test_reading_a_terminology_needs_no_torch",
)
LONG_FIXTURES = {"browser", "bundle_of_a_run", "config_of", "make_config"}  # the last two: of tests that train
CHROMIUMS = "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures, and with them torch, in each process that runs tests: not in one that only hands them out."""
    if getattr(config.option, "dist", "no") == "no":
        for name in FIXTURES:
            config.pluginmanager.import_plugin(name)
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # a core for each process of the tests


@cache
def is_long(path: Path) -> bool:
    """Whether the path is one of LONG_TESTS or below one."""
    return any(path.is_relative_to(TESTS / name) for name in LONG_TESTS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from looking through thousands of modules and tests, now and later, and often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 10, 50)  # its usual 700 new objects are a few tests' worth, which leave few cycles


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Use a process more than there are cores: tests wait a fifth of their time for servers and workers."""
    return None if config.option.markexpr == "unit" else usable_cores() + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import long tests for the unit tier: a third of the time to collect, in each process."""
    return True if config.option.markexpr == "unit" and is_long(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `unit` what is neither slow nor long."""
    assert [name for name in LONG_TESTS if not (TESTS / name.partition("::")[0]).exists()] == []
    for item in items:
        long = is_long(item.path) or item.nodeid.partition("[")[0].removeprefix("tests/") in LONG_TESTS
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
