"""`mtkit translate`: arguments, files, streams, JSON and mistakes."""

import gzip
import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.jobs.line_job import LineJobResult
from mtkit.translation.translator import Translator

LINES = ["I love oranges.", "", "The cat sleeps under the house.", "   ", "Do you see the rain?"]


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@pytest.fixture
def run(shared_bundle):
    def run(*args: str, stdin: bytes | None = None):
        return CliRunner().invoke(app, ["translate", "--model", str(shared_bundle), *args], input=stdin)

    return run


@pytest.fixture(scope="session")
def expected(shared_bundle) -> list[str]:
    """One translation per line, each line translated by itself."""
    translator = Translator.load(shared_bundle, threads=1)
    translations = [translator.translate([line])[0] for line in LINES]
    assert len(set(translations)) == 4
    return translations


def as_bytes(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_sentences_on_the_command_line(run, expected):
    result = run(*LINES)
    assert result.stdout.split("\n") == [*expected, ""]
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("texts", "exists", "facts"),
    [
        (["no.docx"], False, ["no file", "--document no.docx --output"]),
        (["yes.docx"], True, ["a file", "--document yes.docx --output"]),
        (["lines.txt"], True, ["a file", "--input lines.txt"]),
        (["lines.txt"], False, []),
        (["no.docx", "a b"], False, []),  # a list of texts
        (["Node.js"], False, []),
        (["See no.docx"], False, []),
    ],
)
def test_a_text_like_the_name_of_a_file_brings_a_warning_and_is_translated(run, texts, exists, facts):
    if exists:
        Path(texts[0]).write_text("a")
    result = run("--quiet", *texts)
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == len(texts)
    warning = next(
        (line for line in result.stderr.splitlines() if line.startswith(f"warning: mtkit translates {texts[0]} as")), ""
    )
    assert bool(warning) == bool(facts) and all(fact in warning for fact in facts)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_stream_gives_a_line_for_each_line(run, expected, end, last_end, bom):
    stdin = bom + end.join(line.encode() for line in LINES) + (end if last_end else b"")
    assert run(stdin=stdin).stdout.split("\n") == [*expected, ""]


@pytest.mark.parametrize("suffix", [".txt", ".gz"])
def test_files_plain_and_compressed(run, expected, suffix):
    open_file = gzip.open if suffix == ".gz" else open
    with open_file(f"in{suffix}", "wb") as file:
        file.write(as_bytes(LINES))
    result = run("--input", f"in{suffix}", "--output", f"out{suffix}")
    assert (result.exit_code, result.stdout) == (0, "")
    with open_file(f"out{suffix}", "rb") as file:
        assert file.read() == as_bytes(expected)
    assert run("--input", f"in{suffix}").stdout.encode() == as_bytes(expected)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "cp1252"])
def test_lines_in_another_encoding_are_read_and_written_in_utf8(run, expected, encoding):
    Path("in.txt").write_bytes(as_bytes(LINES).decode().encode(encoding))
    assert run("--input", "in.txt", "--encoding", encoding).stdout.encode() == as_bytes(expected)
    assert run("--input", "in.txt", "--encoding", encoding, "--output", "out.txt").exit_code == 0
    assert Path("out.txt").read_bytes() == as_bytes(expected)


def test_n_best_gives_sorted_scored_json_lines(run, expected):
    records = [json.loads(line) for line in run("--n-best", "3", *LINES).stdout.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [record["src"] for record in records] == LINES
    assert [record["hypotheses"][0]["text"] for record in records] == expected
    for record in records:
        hypotheses = record["hypotheses"]
        assert len(hypotheses) == (3 if record["src"].strip() else 1)
        ranks = [(h["finished"], h["score"]) for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        assert all(h["log_prob"] <= h["score"] <= 0 for h in hypotheses)


def test_json_gives_the_single_best(run, expected):
    records = [json.loads(line) for line in run("--json", stdin=as_bytes(LINES)).stdout.splitlines()]
    assert [[h["text"] for h in record["hypotheses"]] for record in records] == [[text] for text in expected]


def test_the_beam_size_can_be_chosen(run, shared_bundle):
    greedy = Translator.load(shared_bundle, beam_size=1, threads=1).translate(LINES)
    assert run("--beam-size", "1", *LINES).stdout.splitlines() == greedy


def test_a_job_resumes_with_another_number_of_threads(run, tmp_path, monkeypatch):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    identities = []
    monkeypatch.setattr(
        "mtkit.jobs.line_job.run_line_job", lambda *args, **_: identities.append(args[3]) or LineJobResult(0, [])
    )
    for n in ("1", "2"):
        place = "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")
        assert run(*place, "--set", f"decode.threads={n}").exit_code == 0
    assert identities[0] == identities[1]
    assert identities[0]["decode"]["beam_size"] == 3


def test_the_command_takes_the_threads_of_the_models_config(run):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert run("a").exit_code == 0
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_output_may_go_to_an_open_pipe(run, expected):
    reading, writing = os.pipe()
    try:
        assert run("--output", f"/dev/fd/{writing}", *LINES).exit_code == 0
        assert os.read(reading, 10_000) == as_bytes(expected)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(("command", "option"), [("translate", "--input"), ("classify", "--input"), ("score", "--src")])
def test_a_closed_standard_input_is_explained_before_a_model_is_loaded(shared_bundle, command, option):
    command = [sys.executable, "-m", "mtkit", command, "--model", str(shared_bundle)]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mtkit: standard input") and option in done.stderr


def test_stderr_says_which_model_unless_quiet(run, shared_bundle):
    assert run("a").stderr.startswith(f"model: {shared_bundle}\n")
    assert "model:" not in run("a", "--quiet").stderr


def test_nothing_in_gives_nothing_out(run):
    result = run(stdin=b"")
    assert (result.exit_code, result.stdout) == (0, "")


def test_odd_characters_are_translated_line_by_line(run):
    result = run("tab\there", "two\nlines", "🙂👩\u200d👩\u200d👧", "\x00\x07bell", "a b " * 250, "\u202eright to left")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 6
    assert "line 5: " in result.stderr
    assert "decode.max_src_tokens" in result.stderr


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["--input", "none.txt"], 1, r"none\.txt: no such file"),
        (["--input", "latin1.txt"], 1, r"latin1\.txt: line 2, byte 4: 0xe9 is not UTF-8.*--encoding cp1252"),
        (["--input", "latin1.txt", "--encoding", "klingon"], 2, "--encoding klingon: "),
        (["--input", "latin1.txt", "--encoding", "utf-16"], 1, r"latin1\.txt: .*--encoding"),
        (["--encoding", "cp1252", "a"], 2, "--encoding needs .*--input or --document"),
        (["--model", "nowhere", "a"], 1, "nowhere: no such folder"),
        (
            ["--n-best", "9", "a"],
            2,
            r"--n-best: 9 .*decode\.beam_size=3",
        ),
        (["--input", "x.txt", "a"], 2, "give either sentences or --input"),
        (["--device", "tpu", "a"], 2, "--device tpu: .*auto, cpu, mps, cuda, cuda:N"),
        (["\udce9t\udce9"], 1, r"argument 1: '\\udce9t\\udce9' is not valid UTF-8"),
    ],
)
def test_mistakes_are_explained(run, args, exit_code, message):
    Path("latin1.txt").write_bytes(b"good\ncaf\xe9\n")
    result = run(*args)
    assert result.exit_code == exit_code
    assert re.search(f"mtkit: {message}", result.stderr)
    assert result.stdout == ""


def test_a_bad_byte_in_a_stream_is_located(run):
    result = run(stdin=b"a\nb\n\xff\n")
    assert result.exit_code == 1
    assert re.search("standard input: line 3, byte 1: 0xff .*UTF-8", result.stderr)


def test_a_failure_leaves_the_output_file_that_was_there(run):
    Path("out.txt").write_text("precious\n")
    assert run("--output", "out.txt", stdin=b"a\n\xff\n").exit_code == 1
    assert Path("out.txt").read_text() == "precious\n"
    assert [path.name for path in Path().iterdir()] == ["out.txt"]


@pytest.mark.parametrize(
    "stdin, options, engine",
    [
        ("pipe", [], "ctranslate2"),
        ("file", [], "torch"),
        ("pipe", ["--input", "lines.txt"], "torch"),
    ],
)
def test_a_stream_starts_soon_without_torch_and_a_file_takes_the_faster_engine(
    exported_bundle, expected, stdin, options, engine
):
    pytest.importorskip("numba")  # without compiled loops, CTranslate2 is faster for files, too
    Path("lines.txt").write_bytes(as_bytes(LINES))
    code = (
        "import sys; sys.argv[0] = 'mtkit'\n"
        "import atexit; atexit.register(lambda: print(sorted({'torch', 'ctranslate2'} & set(sys.modules))))\n"
        "from mtkit.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "translate", "--model", str(exported_bundle), "--quiet", *options]
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(["cat", "lines.txt"], stdout=subprocess.PIPE) as cat, Path("lines.txt").open() as file:
        done = subprocess.run(
            command,
            stdin=file if stdin == "file" else cat.stdout,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
    lines = done.stdout.splitlines()
    assert lines[:-1] == expected, done.stderr
    assert engine in lines[-1] and ("torch" in lines[-1]) == (engine == "torch")


def test_one_sentence_loads_no_jobs_and_no_bars_and_compiles_no_pattern_in_vain(exported_bundle, expected):
    """Each of these would take 5 to 20 ms of the half second that a sentence takes."""
    code = (
        "import sys, atexit; sys.argv[0] = 'mtkit'; from mtkit.text import addresses, placeholders, words\n"
        "unneeded = {'torch', 'tqdm', 'regex', 'mtkit.jobs.job', 'mtkit.engines.parallel'}\n"
        "patterns = addresses._address, placeholders.placeholder_pattern, words._word_or_sign, words._wide\n"
        "loaded = lambda: [*(unneeded & set(sys.modules)), *(one for one in patterns if one.cache_info().currsize)]\n"
        "atexit.register(lambda: print(loaded()))\n"
        "from mtkit.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "translate", "--model", str(exported_bundle), LINES[0]]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": root})
    assert done.stdout == f"{expected[0]}\n[]\n", done.stderr


def test_a_line_comes_out_before_the_next_goes_in(shared_bundle, expected):
    """As with `tail -f`: each answer is awaited while the stream stays open. And only what is needed is imported."""
    code = (
        "import sys; sys.argv[0] = 'mtkit'\n"
        "import atexit; unneeded = {'torch._dynamo', 'torch._inductor', 'sacrebleu', 'matplotlib', 'sympy', 'pandas'}\n"
        "atexit.register(lambda: print(sorted(unneeded & set(sys.modules)), flush=True))\n"
        "from mtkit.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "translate", "--model", str(shared_bundle), "--quiet"]
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            for line, translation in zip(LINES, expected, strict=True):
                process.stdin.write(line.encode() + b"\n")
                process.stdin.flush()
                assert select.select([process.stdout], [], [], 60)[0], "no answer while the stream is open"
                assert process.stdout.readline().decode() == translation + "\n"
            process.stdin.close()
            assert process.stdout.read() == b"[]\n"
            assert process.wait(300) == 0
        finally:
            process.kill()
