"""What all commands share: help, version, --quiet, and how errors reach people and shells."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import mtkit
from mtkit.cli import app
from mtkit.console import log
from mtkit.errors import ConfigError, UsageError

MTKIT = [sys.executable, "-m", "mtkit"]
COMMANDS = ["demo", "config", "train-tokenizer", "tokenize", "detokenize", "train", "translate", "evaluate"]
HEAVY = {"torch", "numpy", "sentencepiece", "sacrebleu", "pydantic", "yaml", "tqdm", "rich", "matplotlib"}


SMALL = "data: {train: [{tsv: é.tsv}], dev: {tsv: b.tsv}}\ntrain: {max_steps: 5000}\n"


@pytest.fixture
def small(tmp_path):
    """A config file that prints in less than a buffer of stdout."""
    path = tmp_path / "été.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def run(*args: str):
    return CliRunner().invoke(app, args)


def failing_with(monkeypatch, error: BaseException):
    """`mtkit config x.yaml`, in which the library raises this error."""

    def fail(*args):
        raise error

    monkeypatch.setattr("mtkit.config.reading.loading.load_config", fail)
    return run("config", "x.yaml")


@pytest.mark.parametrize("code", ["import mtkit", "import runpy; runpy.run_module('mtkit', run_name='__main__')"])
def test_neither_the_package_nor_its_help_loads_anything_heavy(code):
    script = f"import sys; sys.argv[1:] = ['--help']\ntry:\n    {code}\nfinally:\n    print('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert HEAVY & {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()} == set()


def test_help_names_every_command_and_each_has_its_own():
    top = run("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in top
        assert run(command, "--help").stdout.startswith(f"Usage: root {command} [OPTIONS]")


def test_python_m_mtkit_is_the_same_command():
    done = subprocess.run([*MTKIT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"mtkit {mtkit.__version__}\n"


def test_a_wrong_command_exits_with_2_and_names_the_nearest():
    result = run("trian")
    assert result.exit_code == 2
    assert "'train'" in result.stderr


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (
            ConfigError("x.yaml: 1 problem\n  line 2: model.n_head: unknown key"),
            1,
            "x.yaml: 1 problem\n  line 2: model",
        ),
        (UsageError("give a file"), 2, "give a file"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), 1, "runs/x: No space left on device; free some"),
        (PermissionError(errno.EACCES, "Permission denied", "runs"), 1, "runs: Permission denied; check the owner"),
    ],
)
def test_expected_errors_are_one_message_on_stderr_and_an_exit_code(monkeypatch, error, exit_code, message):
    result = failing_with(monkeypatch, error)
    assert result.exit_code == exit_code
    assert result.stderr.startswith(f"mtkit: {message}")
    assert result.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_what_a_command_has_half_written(tmp_path, number):
    pipe = tmp_path / "in.tsv"
    os.mkfifo(pipe)
    words = ["data", "convert", pipe, "-o", tmp_path / "out.tsv", "--langs", "en-de"]
    process = subprocess.Popen([*MTKIT, *words], stderr=subprocess.PIPE, text=True, start_new_session=True)
    with pipe.open("w"):  # waits until the command reads it, and has opened its output
        assert len([*tmp_path.iterdir()]) == 2
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.endswith("mtkit: interrupted\n")
    assert [*tmp_path.iterdir()] == [pipe]


def test_an_error_in_mtkit_keeps_its_traceback(monkeypatch):
    result = failing_with(monkeypatch, ZeroDivisionError())
    assert isinstance(result.exception, ZeroDivisionError)
    assert isinstance(failing_with(monkeypatch, OSError("no number: not from the system")).exception, OSError)


def test_a_reader_that_closes_the_pipe_is_not_an_error(small):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed_pipe:
        done = subprocess.run([*MTKIT, "config", small], stdout=closed_pipe, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_disk_behind_stdout_is_reported(small):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*MTKIT, "config", small], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b"mtkit: No space left on device; free some space and run the command again\n"
    assert done.returncode == 1


@pytest.mark.parametrize("command", ["config small.yaml", "--help", "config --help", "--version"])
def test_results_that_a_closed_or_full_stdout_loses_are_an_error(small, command, capfd):
    words = command.replace("small.yaml", str(small))
    for redirection, reason in {">&-": "standard output: closed", ">/dev/full": "No space left on device"}.items():
        shell = ["sh", "-c", f'exec "$@" {redirection}', "sh"]
        done = subprocess.run([*shell, *MTKIT, *words.split()], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(f"mtkit: {reason}")
        assert len(done.stderr.splitlines()) == 1, "no traceback"


def test_a_closed_stderr_swallows_what_is_written(small):
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *MTKIT, "config", small], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are any bytes")
def test_a_file_name_that_is_not_utf_8_is_shown():
    done = subprocess.run([*MTKIT, "config", b"caf\xe9.yaml"], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"mtkit: caf\\udce9.yaml: no such file")


def test_output_is_utf_8_with_lf_in_any_locale(small):
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*MTKIT, "config", small], capture_output=True, env=env, check=True)
    assert "é.tsv\n".encode() in done.stdout
    assert done.stdout.splitlines(keepends=True)[1].endswith("été\n".encode())


@pytest.mark.parametrize("args", [("--quiet", "config", "--schema"), ("config", "--schema", "--quiet")])
def test_quiet_may_be_anywhere(args):
    assert run(*args).exit_code == 0
    assert not log.isEnabledFor(20)
    assert run("config", "--schema").exit_code == 0
    assert log.isEnabledFor(20)


def test_quiet_after_two_dashes_is_an_argument(monkeypatch):
    seen = []
    config = SimpleNamespace(train=SimpleNamespace(init_from=None))
    monkeypatch.setattr("mtkit.config.reading.loading.load_config", lambda path, overrides: seen.append(path) or config)
    monkeypatch.setattr("mtkit.config.reading.loading.dump_config", lambda config: "")
    assert run("config", "--", "--quiet").exit_code == 0
    assert seen == [Path("--quiet")]


def test_config_prints_what_the_run_would_use(small):
    result = run("config", str(small), "--set", "train.lr=1e-4", "--set", "model.d_ff=512")
    assert result.exit_code == 0
    assert f"tsv: {small.parent}/b.tsv\n" in result.stdout
    assert "  lr: 0.0001\n" in result.stdout
    assert "  d_ff: 512\n" in result.stdout


def test_config_prints_a_json_schema():
    schema = json.loads(run("config", "--schema").stdout)
    assert schema["$defs"]["ModelConfig"]["properties"]["n_heads"]["minimum"] == 1


@pytest.mark.parametrize("args", [(), ("x.yaml", "--schema")])
def test_config_needs_a_file_or_schema_not_both(args):
    result = run("config", *args)
    assert result.exit_code == 2
    assert result.stderr.startswith("mtkit: give a config file, or --schema")
