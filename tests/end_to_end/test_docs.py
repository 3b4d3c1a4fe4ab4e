"""Everything that README.md and docs/*.md show: each command runs, in the order of the page, on a tiny model.

A page is prepared like this: a fence of the language `sh` is run line by line, `python` as a whole, `mtkit serve ... &`
starts a server on a free port, to which `localhost:5000` leads until `kill -TERM %1` ends it, a fence under
`<!-- file: NAME -->` becomes that file, and one under `<!-- not run: REASON -->` is left alone. Training is shortened,
and everybody's files lie in the folder that `folder` makes. Commands of mtkit and Python run in this process, which has
torch already; commands in a pipe run in further processes.
"""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import typer
from make_questions import sample_rows
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import load_config
from mtkit.console import log
from mtkit.data.sample import read_sample
from mtkit.interop.parity import remark_on
from mtkit.pair_files.compression import open_output
from mtkit.runs.train import train

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"sh", "python", "yaml", "text", "json"}  # of fences

TINY = (
    "model.d_model=16",
    "model.d_ff=16",
    "train.threads=1",
    "train.validate_sentences=4",
    "decode.max_len=6",
    "decode.on_suspect=off",
)
BRIEF = ("train.budget=null", "train.max_epochs=null", "train.max_minutes=null", "train.max_steps=3")
QUICK = ("train.warmup_steps=1", "train.validate_every=2", "train.log_every=1", "train.batch_tokens=1024")
# Enough for a translator whose sentences are mostly wrong but are sentences: what follows has something to work on.
SAMPLE_MODEL = (
    "train.guided_alignment=0",
    "model.d_model=32",
    "model.d_ff=64",
    "train.max_epochs=null",
    "train.max_steps=80",
    "train.batch_tokens=512",
    "train.lr=6e-3",
    "train.schedule=constant",
    "train.warmup_steps=20",
    "train.precision=fp32",
    "train.threads=1",
    "train.validate_sentences=4",
    "decode.max_len=12",
)
SHORT = {  # what is added to a command so that it takes no time
    "train-tokenizer": TINY,
    "plan": TINY,
    "train": (*TINY, *BRIEF, *QUICK),
    "distill": (*TINY, *BRIEF, *QUICK, "distill.beam_size=1"),
}
FURTHER = {"plan": ["--seconds", "1"], "evaluate": ["--bootstrap", "10", "--randomization", "10"]}
STUDENT = """\
data:
  train: [{src: train.en, tgt: train.fr}]
  dev: {src: dev.en, tgt: dev.fr}
train: {max_epochs: 10}
"""
ELSEWHERE = {"mtkit demo": "end_to_end/test_demo.py"}  # lines that another file of tests runs
INSTALLED = {"source .venv/bin/activate"}  # lines that have been run where tests run
FURTHER_FILES = {"new": "", "manual": "", "big": ".gz", "mono": ".gz"}
MAY_FAIL = {"check", "calibrate"}  # with exit code 1, as they should: the tiny model knows nothing
OPTIONAL = {"--to ctranslate2": "ctranslate2", ".png": "matplotlib", ".svg": "matplotlib"}


class Fence(NamedTuple):
    """A block of code on a page."""

    line: int  # of the page
    language: str
    text: str
    note: str  # of the comment above it: "file: NAME", "not run: REASON", or nothing


def fences(page: Path) -> list[Fence]:
    """The page's blocks in order."""
    text = page.read_text(encoding="utf-8")
    pattern = r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$"
    found = re.finditer(pattern, text, re.MULTILINE | re.DOTALL)
    return [Fence(text.count("\n", 0, one.start(2)) + 1, one[2], one[3], one[1] or "") for one in found]


def shell_lines(fence: Fence) -> list[str]:
    """The commands of a block, without comments; a line that ends in a backslash goes on."""
    lines = fence.text.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s+)#\s.*", "", line).strip() for line in lines) if line]


RUN = [page for page in DOCS if any(fence.language in ("sh", "python") for fence in fences(page))]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `mtkit demo` leaves it, with less training; and files of the names that pages use."""
    place = tmp_path_factory.mktemp("base")
    pairs = read_sample()["train"]
    parts = {"train": pairs[:2400], "dev": pairs[2400:2425], "test": pairs[2425:2450]}
    for side, language in enumerate(("en", "fr")):
        lines = {part: [f"{pair[side]}\n" for pair in some] for part, some in parts.items()}
        files = {f"data/sample/{part}.{language}": some for part, some in lines.items()}
        files |= {f"{part}.{language}": some[:60] for part, some in lines.items()}
        files[f"all.{language}"] = lines["train"]
        files |= {f"{name}.{language}{end}": lines["test"] for name, end in FURTHER_FILES.items()}
        for name, some in files.items():
            with open_output(place / name) as file:
                file.writelines(some)
    for part, rows in sample_rows(n_each=40, n_held_out=15).items():
        with open_output(place / "data" / "questions" / f"{part}.tsv") as file:
            file.writelines(f"{text}\t{label}\n" for text, label in rows)
    (place / "student.yaml").write_text(STUDENT, encoding="utf-8")
    shutil.copytree(ROOT / "configs", place / "configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        forward, backward = Path("configs/sample-en-fr.yaml"), Path("configs/fr-en.yaml")
        train(load_config(forward, SAMPLE_MODEL))
        exchanged = re.sub(r"\ben\b|\bfr\b", lambda code: {"en": "fr", "fr": "en"}[code[0]], forward.read_text("utf-8"))
        backward.write_text(exchanged.replace("sample-fr-en", "fr-en"), encoding="utf-8")
        train(load_config(backward, (*SAMPLE_MODEL, "train.max_steps=2", "train.warmup_steps=1")))
    for name in ("big-1", "big-2"):
        (place / "runs" / name).symlink_to("sample-en-fr", target_is_directory=True)
    return place


@pytest.fixture
def folder(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of that folder, in which the test is; the process is afterwards as it was before."""
    place = shutil.copytree(base, tmp_path / "folder", symlinks=True)
    monkeypatch.chdir(place)
    monkeypatch.delenv("MTKIT_MODEL", raising=False)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "mtkit").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m mtkit "$@"\n')
    (bin_ / "mtkit").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    threads = torch.get_num_threads()
    yield place
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="module")
def log_as_it_was() -> Iterator[None]:
    level, propagate, handlers = log.level, log.propagate, log.handlers
    yield
    log.setLevel(level)
    log.propagate, log.handlers = propagate, handlers


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_what_the_page_shows_runs_in_its_order(page: Path, folder: Path) -> None:
    with Background() as background:
        run_page(page, folder, background)


def run_page(page: Path, folder: Path, background: "Background") -> None:
    for fence in fences(page):
        place = f"{page.name}:{fence.line}"
        kind, _, value = fence.note.partition(": ")
        if kind == "not run":
            assert len(value) > 10, f"{place}: say why"
        elif kind == "file":
            (folder / value).write_text(fence.text, encoding="utf-8")
        elif fence.language == "sh":
            for line in shell_lines(fence):
                if not background.run(line, place):
                    run_line(background.with_port(line), place)
        elif fence.language == "python":
            with redirect_stdout(StringIO()) as shown:
                exec(compile(fence.text, place, "exec"), {"__name__": "__main__"})
            assert shown.getvalue(), place


class Server(NamedTuple):
    """A running service of a page, and the port on which it listens."""

    process: subprocess.Popen[bytes]
    port: int


class Background:
    """The server that a page has started, as a shell's job 1. The same command finds the same server again."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, ...], Server] = {}
        self._current: Server | None = None

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        codes = [None if error else self._end(server) for server in self._servers.values()]
        for server in self._servers.values():
            server.process.kill()
            server.process.wait()
        assert error or codes == [0] * len(codes)

    @staticmethod
    def _end(server: Server) -> int:
        server.process.terminate()
        return server.process.wait(300)

    def run(self, line: str, place: str) -> bool:
        """Run a line that starts a server or sends it a signal; returns whether it is one."""
        if line.startswith("mtkit serve ") and line.endswith(" &"):
            pytest.importorskip("uvicorn", reason=f"{place}: needs the extra serve")
            assert self._current is None, f"{place}: a server runs already"
            words = shlex.split(line.removesuffix(" &"))[1:]
            key = (*words, *(Path(word).read_text("utf-8") for word in words if word.endswith(".yaml")))
            if key not in self._servers:
                self._servers[key] = self._start(words, place)
            self._current = self._servers[key]
        elif match := re.fullmatch(r"kill -(HUP|TERM) %1", line):
            assert self._current is not None, f"{place}: no server runs"
            if match[1] == "HUP":
                self._current.process.send_signal(signal.SIGHUP)
            else:
                self._current = None  # it ends with the page, so that it can be found again
        else:
            return False
        return True

    def _start(self, words: Sequence[str], place: str) -> Server:
        command = [sys.executable, "-m", "mtkit", *words, "--port", "0", "--set", "workers=1"]
        log_file = Path(f"serve-{len(self._servers)}.log")
        with log_file.open("wb") as file:
            process = subprocess.Popen(command, stderr=file)
        until = time.monotonic() + 300
        while (found := re.search(r"serving at http://[\w.]+:(\d+)", said := log_file.read_text("utf-8"))) is None:
            assert process.poll() is None and time.monotonic() < until, f"{place}: no server:\n{said}"
            time.sleep(0.1)
        return Server(process, int(found[1]))

    def with_port(self, line: str) -> str:
        """The line, with the port on which the server listens."""
        return line if self._current is None else line.replace("localhost:5000", f"localhost:{self._current.port}")


def run_line(line: str, place: str) -> None:
    if line in ELSEWHERE:
        assert (ROOT / "tests" / ELSEWHERE[line]).exists()
        return
    if line in INSTALLED:
        return
    if line.startswith("./scripts/"):  # installs, or runs all tests: only looked at
        assert (ROOT / line).stat().st_mode & 0o111
        assert subprocess.run(["bash", "-n", ROOT / line]).returncode == 0
        return
    for part, package in OPTIONAL.items():
        if part in line:
            pytest.importorskip(package, reason=f"{place}: needs the optional package {package}")
    if "--quantization int8" in line and remark_on("int8"):
        return  # this processor is too inexact; the next lines do not need the export
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    words = list(lexer)
    if words[0] == "mtkit" and not set(words) & {"|", "<", ">", ";", "&&"}:
        mtkit(shlex.split(line)[1:], place)
        return
    if words[0] == "shuf" or "shuf" in words:
        shutil.which("shuf") or pytest.skip(f"{place}: this system has no shuf")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{place}: {line}\n{done.stderr}"


def goes_on(words: Sequence[str]) -> bool:
    """Whether a command's config begins with a model, whose sizes it takes."""
    return any("init_from:" in Path(word).read_text("utf-8") for word in words if word.endswith(".yaml"))


def mtkit(words: Sequence[str], place: str = "") -> None:
    """Run a command of mtkit in this process, shortened."""
    command = words[0]
    short = [setting for setting in SHORT.get(command, ()) if not (goes_on(words) and setting.startswith("model."))]
    settings = [word for setting in short for word in ("--set", setting)]
    done = CliRunner().invoke(app, [*words, *settings, *FURTHER.get(command, [])])
    shown = f"{place}: mtkit {' '.join(words)}\n{done.output[-3000:]}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(shown) from done.exception
    assert done.exit_code in ((0, 1) if command in MAY_FAIL else (0,)), shown
    for option, name in itertools.pairwise(words):
        if option in ("-o", "--output"):
            assert Path(name).exists(), shown


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_what_is_shown_is_marked_so_that_it_is_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(fences(page)), "each fence begins and ends at the margin"
    for fence in fences(page):
        assert fence.language in LANGUAGES, f"{page.name}:{fence.line}"
        assert fence.language == "sh" or not re.search(r"^\$? ?mtkit ", fence.text, re.MULTILINE), fence.line
        assert re.fullmatch(r"|file: [\w.-]+|not run: .*", fence.note), f"{page.name}:{fence.line}"
    assert re.findall(r"^(?: {4}|\t)(?:mtkit|torchrun|python) .*", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_commands_and_options_named_in_passing_exist(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"(?<!`)`mtkit ([^`]+)`", prose):
        words = span.split()
        command, rest = find_command(words)
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        options = {word.partition("=")[0] for word in rest if word.startswith("-")} - {"--help", "--quiet", "--version"}
        assert options <= known, f"{page.name}: `mtkit {span}`"


def find_command(words: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """The command that the words begin with, and the rest of them."""
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.load(words[0]), words[1:]
    if getattr(command, "commands", None) and words and re.fullmatch(r"[a-z-]+", words[0]):
        raise AssertionError(f"mtkit has no command {words[0]}")
    return command, words


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_no_gap_is_left_to_fill(page: Path) -> None:
    assert re.findall(r"@[A-Z_]+@|TODO|TBD|XXX", page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_configs_on_the_page_load(page: Path, tmp_path: Path) -> None:
    for fence in fences(page):
        if fence.language == "yaml" and fence.note.startswith("file: ") and "\ndata:" in "\n" + fence.text:
            path = tmp_path / "page.yaml"
            path.write_text(fence.text, encoding="utf-8")
            load_config(path)
