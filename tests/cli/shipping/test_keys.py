"""`mtkit keys`: made once shown, listed, removed."""

from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.serving.records.key_file import Keys


def keys(*words):
    return CliRunner().invoke(app, ["keys", *map(str, words)])


def test_a_key_is_printed_listed_and_removed(tmp_path):
    path = tmp_path / "keys.yaml"
    made = keys("add", "ann", "--file", path, "--requests-per-minute", 60)
    [key] = made.stdout.splitlines()
    entry = Keys(path).find(key)
    assert entry is not None

    listed = keys("list", "--file", path).stdout.splitlines()
    assert listed == ["name\tcreated\trequests_per_minute\tmax_chars", f"ann\t{entry.created}\t60\t"]

    assert keys("remove", "ann", "--file", path).stdout == ""
    assert Keys(path).find(key) is None


def test_what_is_wrong_is_said_without_a_traceback(tmp_path):
    missing = keys("list", "--file", tmp_path / "none.yaml")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "none.yaml: no such file" in missing.stderr
    assert "cannot name a key" in keys("add", "a b", "--file", tmp_path / "keys.yaml").stderr
