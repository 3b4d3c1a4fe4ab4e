"""Files of API keys, and who is let in by them."""

import os
import stat
import sys
import time
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory

import pytest

from mtkit.config.serving import ServeConfig
from mtkit.errors import ConfigError, UsageError
from mtkit.serving import keys as keys_module
from mtkit.serving.caller import Caller
from mtkit.serving.keys import Gate
from mtkit.serving.records.key_file import Keys, add_key, read_keys, remove_key
from mtkit.serving.refusals import Forbidden, TooManyRequests, Unready

as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change owners")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.yaml"


@pytest.fixture
def open_folder():
    """A folder that every user can enter, as those of pytest cannot be."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def gate_of(path=None, *, required=False, per_minute=None):
    return Gate(
        ServeConfig.model_validate(
            {"keys": {"file": path, "required": required}, "limits": {"requests_per_minute": per_minute}}
        )
    )


@pytest.fixture
def clock(monkeypatch):
    """The time that callers' requests are counted by, in seconds; it moves when a test moves it."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_file_keeps_checksums_instead_of_keys(path):
    key = add_key(path, "ann", max_chars=7)
    [entry] = read_keys(path)
    assert (entry.name, entry.sha256, entry.max_chars) == ("ann", sha256(key.encode()).hexdigest(), 7)
    assert key not in path.read_text()
    assert len(key) > 43  # 32 bytes in base64


def test_only_the_owner_may_read_a_file_of_keys(path):
    add_key(path, "ann")
    add_key(path, "bob")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.yaml"]  # no lock, nothing temporary


def test_a_file_that_others_may_change_is_refused(path):
    add_key(path, "ann")
    path.chmod(0o620)
    with pytest.raises(ConfigError, match=r"other users .*mode 620.* chmod 600"):
        gate_of(path)
    path.chmod(0o644)  # checksums are no secret
    gate_of(path)


def test_a_name_has_one_key(path):
    add_key(path, "ann")
    with pytest.raises(UsageError, match=r"ann already has a key.* mtkit keys remove ann"):
        add_key(path, "ann")


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 65, "../x"])
def test_a_name_is_a_plain_word(path, name):
    with pytest.raises(UsageError, match="cannot name a key"):
        add_key(path, name)
    assert not path.exists()


def test_what_is_wrong_in_a_file_is_said_with_its_line(path):
    path.write_text("keys:\n- name: ann\n  sha256: abc\n")
    with pytest.raises(ConfigError, match=r"line 3: keys\.0\.sha256"):
        read_keys(path)


def test_a_key_counts_from_when_it_is_added_until_it_is_removed(path):
    first = add_key(path, "ann")
    keys = Keys(path)
    second = add_key(path, "bob")
    assert [entry and entry.name for entry in map(keys.find, (first, second, "guess"))] == ["ann", "bob", None]
    remove_key(path, "ann")
    assert [entry and entry.name for entry in map(keys.find, (first, second))] == [None, "bob"]


@pytest.mark.parametrize("damage", [lambda path: path.write_text("keys: ["), lambda path: path.unlink()])
def test_no_key_is_valid_while_the_file_cannot_be_read(path, damage, caplog):
    key = add_key(path, "ann")
    keys, intact = Keys(path), path.read_text()
    damage(path)
    for _ in range(2):
        with pytest.raises(Unready, match="cannot read its API keys"):
            keys.find(key)
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]  # logged once, not at each request
    path.write_text(intact)
    path.chmod(0o600)
    assert keys.find(key) is not None


@as_root
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_changed_by_root_stays_that_of_the_services_user(path, mode):
    add_key(path, "ann")
    add_key(path, "bob")
    os.chown(path, 1234, 2345)
    path.chmod(mode)
    remove_key(path, "ann")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 2345, mode)


@as_root
def test_a_service_refuses_all_keys_once_its_user_may_not_read_the_file(open_folder):
    """A child process is the service's user: root may read everything."""
    path = open_folder / "keys.yaml"
    key = add_key(path, "ann")
    os.chown(path, 1234, 2345)
    code = """
import os, sys
from pathlib import Path
from mtkit.serving.records.key_file import Keys
from mtkit.serving.refusals import Unready
path, key = sys.argv[1:]
keys = Keys(Path(path))
os.setgid(2345)
os.setuid(1234)
for line in sys.stdin:
    try:
        print(keys.find(key) is not None, flush=True)
    except Unready:
        print("refused", flush=True)
"""
    with Popen(
        [sys.executable, "-c", code, str(path), key], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True
    ) as service:

        def answer():
            assert service.stdin is not None and service.stdout is not None
            service.stdin.write("?\n")
            service.stdin.flush()
            return service.stdout.readline().strip()

        assert answer() == "True"
        os.chown(path, 0, 0)
        assert answer() == "refused"
        os.chown(path, 1234, 2345)
        assert answer() == "True"
        _, errors = service.communicate()
    assert "Permission denied" in errors
    assert "keys.yaml" in errors


def test_removing_an_unknown_key_names_those_that_there_are(path):
    add_key(path, "ann")
    with pytest.raises(UsageError, match="no key is named bob; the names are ann"):
        remove_key(path, "bob")


def test_a_caller_is_known_by_the_key(path):
    key = add_key(path, "ann", max_chars=20)
    gate = gate_of(path)
    assert gate.admit(key, "10.0.0.1") == Caller("ann", 20)
    assert gate.admit(None, "10.0.0.1") == Caller()
    with pytest.raises(Forbidden, match="Invalid API key"):
        gate.admit("guess", "10.0.0.1")


@pytest.mark.parametrize("key", [None, ""])
def test_a_service_may_need_a_key(path, key):
    add_key(path, "ann")
    with pytest.raises(Forbidden, match="needs an API key"):
        gate_of(path, required=True).admit(key, "10.0.0.1")


def test_a_service_without_keys_ignores_them():
    assert gate_of().admit("any", "10.0.0.1") == Caller()


def test_callers_wait_once_their_requests_are_used_up(clock):
    gate = gate_of(per_minute=2)
    gate.admit(None, "10.0.0.1")
    gate.admit(None, "10.0.0.1")
    with pytest.raises(TooManyRequests, match="Slowdown: 2 requests a minute") as refusal:
        gate.admit(None, "10.0.0.1")
    assert refusal.value.retry_after_s == 30
    gate.admit(None, "10.0.0.2")  # another caller
    clock[0] += 30
    gate.admit(None, "10.0.0.1")


def test_a_key_may_have_a_limit_of_its_own(path, clock):
    key = add_key(path, "ann", requests_per_minute=3)
    gate = gate_of(path, per_minute=1)
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        gate.admit(key, address)
    with pytest.raises(TooManyRequests, match="3 requests"):
        gate.admit(key, "10.0.0.4")


def test_guesses_of_keys_are_counted_by_address(path, clock):
    add_key(path, "ann")
    gate = gate_of(path, per_minute=2)
    for guess in ("a", "b"):
        with pytest.raises(Forbidden):
            gate.admit(guess, "10.0.0.1")
    with pytest.raises(TooManyRequests):
        gate.admit("c", "10.0.0.1")


def test_all_addresses_of_a_customers_network_are_one_caller(clock):
    gate = gate_of(per_minute=1)
    gate.admit(None, "2001:db8:1:2:aaaa::1")
    with pytest.raises(TooManyRequests):
        gate.admit(None, "2001:db8:1:2:bbbb::9")
    gate.admit(None, "2001:db8:1:3::1")
    gate.admit(None, "::ffff:10.0.0.1")
    gate.admit(None, "::ffff:10.0.0.2")


def test_those_seen_longest_ago_are_forgotten_first(monkeypatch, clock):
    monkeypatch.setattr(keys_module, "_MOST_CALLERS", 2)
    gate = gate_of(per_minute=1)
    for address in ("1", "2", "3"):
        gate.admit(None, address)
    with pytest.raises(TooManyRequests):
        gate.admit(None, "3")
    gate.admit(None, "1")


def test_a_file_that_cannot_be_read_is_named(path):
    add_key(path, "ann")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(ConfigError, match=r"keys\.yaml: cannot be read: Permission denied"):
        gate_of(path)
