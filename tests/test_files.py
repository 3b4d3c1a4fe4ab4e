"""Atomic files and folders, also when a process is killed, and locks."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit import files
from mtkit.errors import MtkitError
from mtkit.files import TEMPORARY, atomic_file, atomic_folder, locked, remove_leftovers

# `python -c` with a folder: like kill -9 in the midst of the work
KILLED_WHILE_WRITING = """
import os, pathlib, sys
from mtkit.files import atomic_file, atomic_folder
os.fsync = lambda descriptor: None
with atomic_file(pathlib.Path(sys.argv[1], "file")) as file, atomic_folder(pathlib.Path(sys.argv[1], "folder")):
    file.write_text("half")
    os._exit(9)
"""
KILLED_BETWEEN_THE_RENAMES = """
import itertools, os, pathlib, sys
from mtkit.files import atomic_folder
os.fsync = lambda descriptor: None
replace, calls = os.replace, itertools.count()
os.replace = lambda *names: replace(*names) if next(calls) == 0 else os._exit(9)
with atomic_folder(pathlib.Path(sys.argv[1], "folder")) as temporary:
    (temporary / "text").write_text("new")
"""
LOCKS_AND_WAITS = """
import pathlib, sys
from mtkit.files import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Files survive a killed process without it, and a busy disk can take seconds each time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def run_killed(code, folder):
    assert subprocess.run([sys.executable, "-c", code, str(folder)], timeout=300).returncode == 9


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fill(path, text):
    with atomic_folder(path) as temporary:
        (temporary / "text").write_text(text)


def test_a_file_is_replaced_when_the_block_ends(tmp_path):
    path = tmp_path / "new folder" / "file"
    for text in ("first", "second"):
        with atomic_file(path) as temporary:
            temporary.write_text(text)
        assert path.read_text() == text
    assert names(path.parent) == ["file"]


def test_an_exception_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_files_and_folders_get_the_usual_permissions(tmp_path):
    mask = os.umask(0o027)
    try:
        with atomic_file(tmp_path / "file"):
            pass
        with atomic_folder(tmp_path / "folder") as folder:
            (folder / "text").touch(0o600)
    finally:
        os.umask(mask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "folder" / "text").stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o604)
    with atomic_file(path) as temporary:
        temporary.write_text("new")
    assert path.stat().st_mode & 0o777 == 0o604


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change owners")
def test_a_file_that_is_replaced_keeps_its_owner(tmp_path):
    path = tmp_path / "file"
    path.touch()
    os.chown(path, 1234, 2345)
    with atomic_file(path) as temporary:
        temporary.write_text("new")
    assert (path.stat().st_uid, path.stat().st_gid, path.read_text()) == (1234, 2345, "new")


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A file that belongs to user 1234 and group 2345; foreign(may) lets this user set only what may(uid, gid) says."""
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o664)
    real = Path.stat

    def stat_of(self, **options):
        values = list(real(self, **options))
        if self == path:
            values[stat.ST_UID], values[stat.ST_GID] = 1234, 2345
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", stat_of)
    kept = []

    def replaced(may):
        def chown(path, uid, gid):
            if not may(uid, gid):
                raise PermissionError(errno.EPERM, "Operation not permitted")
            kept.append((uid, gid))

        monkeypatch.setattr(os, "chown", chown)
        with atomic_file(path) as temporary:
            temporary.write_text("new")
        assert path.read_text() == "new"
        return path, kept, real(path).st_mode & 0o777

    return replaced


def test_a_warning_names_the_owner_that_a_file_cannot_keep(foreign, caplog):
    path, kept, mode = foreign(lambda uid, gid: False)
    assert (kept, mode) == ([], 0o644)  # another group may not write
    assert f"chown 1234:2345 {path}" in caplog.text


def test_a_member_of_the_group_keeps_the_group_of_a_file(foreign, caplog):
    path, kept, mode = foreign(lambda uid, gid: uid == -1)
    assert (kept, mode) == ([(-1, 2345)], 0o664)
    assert f"chown 1234:2345 {path}" in caplog.text


def test_root_keeps_both_without_a_warning(foreign, caplog):
    _, kept, mode = foreign(lambda uid, gid: True)
    assert (kept, mode) == ([(-1, 2345), (1234, -1)], 0o664)
    assert caplog.text == ""


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "folder"
    fill(path, "old")
    with atomic_folder(path) as temporary:
        (temporary / "other").write_text("new")
        assert (path / "text").read_text() == "old", "until the block ends"
    assert names(path) == ["other"]
    assert names(tmp_path) == ["folder"]


def test_a_link_still_points_to_the_folder(tmp_path):
    fill(tmp_path / "disk" / "folder", "old")
    (tmp_path / "link").symlink_to("disk/folder")
    for number in range(3):
        with atomic_folder(tmp_path / "link") as temporary:
            (temporary / f"text{number}").write_text("new")
        assert names(tmp_path / "disk" / "folder") == [f"text{number}"]
    assert (tmp_path / "link").is_symlink()
    assert (names(tmp_path), names(tmp_path / "disk")) == (["disk", "link"], ["folder"])


def test_an_exception_leaves_the_folder_as_it_was(tmp_path):
    fill(tmp_path / "folder", "old")
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "text").write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "folder" / "text").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_only_the_half_written_files_of_a_killed_process_are_removed(tmp_path):
    for foreign in (".notes.tmp", ".old.tmp", "text.mtkit-tmp"):
        (tmp_path / foreign).write_text("not ours")
    (tmp_path / ".cache.tmp").mkdir()
    before = names(tmp_path)
    run_killed(KILLED_WHILE_WRITING, tmp_path)
    assert len(names(tmp_path)) == len(before) + 2
    remove_leftovers(tmp_path)
    assert names(tmp_path) == before


def test_a_folder_moved_aside_by_a_killed_process_is_put_back(tmp_path):
    fill(tmp_path / "folder", "old")
    run_killed(KILLED_BETWEEN_THE_RENAMES, tmp_path)
    assert not (tmp_path / "folder").exists()
    remove_leftovers(tmp_path)
    assert (tmp_path / "folder" / "text").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_a_folder_moved_aside_by_a_killed_process_is_there_if_the_next_try_fails(tmp_path):
    fill(tmp_path / "folder", "old")
    run_killed(KILLED_BETWEEN_THE_RENAMES, tmp_path)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "folder"):
        raise KeyboardInterrupt
    assert (tmp_path / "folder" / "text").read_text() == "old"
    fill(tmp_path / "folder", "new")
    assert (tmp_path / "folder" / "text").read_text() == "new"
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["folder"]


def test_an_interruption_between_the_renames_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    def interrupted(source, target):
        if target == tmp_path / "folder":
            monkeypatch.undo()
            raise KeyboardInterrupt
        replace(source, target)

    replace = os.replace
    fill(tmp_path / "folder", "old")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "folder", "new")
    assert (tmp_path / "folder" / "text").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_removing_leftovers_needs_no_folder(tmp_path):
    remove_leftovers(tmp_path / "none")
    assert names(tmp_path) == []


def test_a_lock_keeps_others_out_until_its_process_is_killed(tmp_path):
    command = [sys.executable, "-c", LOCKS_AND_WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "locked\n"
            message = rf"\(pid {process.pid}\).*run_dir"
            with pytest.raises(MtkitError, match=message), locked(tmp_path):
                pass
        finally:
            process.kill()
    for _ in range(2):  # it ends with the block, too
        with locked(tmp_path):
            assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_folder_that_was_made_for_the_lock_goes_with_it_if_nothing_is_in_it(tmp_path):
    new, used, old = (tmp_path / name for name in ("new", "used", "old"))
    old.mkdir()
    for folder in (new, used, old):
        with locked(folder):
            if folder is used:
                (folder / "file").touch()
    assert not new.exists() and used.exists() and old.exists()


def test_a_lock_on_a_file_that_was_just_removed_does_not_count(tmp_path, monkeypatch):
    """The process that had the lock removes the folder between the other's opening of the file and its lock."""
    take_lock = files._take_lock
    removed: list[str] = []

    def removed_before(file):
        if not removed:
            removed.append(file.name)
            (tmp_path / "run" / ".lock").unlink()
            (tmp_path / "run").rmdir()
        return take_lock(file)

    monkeypatch.setattr(files, "_take_lock", removed_before)
    with locked(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").read_text() == str(os.getpid())
    assert removed


@pytest.mark.parametrize("writer", [atomic_file, atomic_folder])
@pytest.mark.parametrize("name", [None, f".x{TEMPORARY}/part"])
def test_an_error_for_a_full_disk_names_what_was_to_be_written(tmp_path, writer, name):
    for number in (errno.ENOSPC, errno.EIO):
        with pytest.raises(OSError) as error, writer(tmp_path / "x"):
            raise OSError(number, "reason", name)
        assert error.value.filename == (str(tmp_path / "x") if number == errno.ENOSPC else name)


@pytest.mark.parametrize(("writer", "maker"), [(atomic_file, "mkstemp"), (atomic_folder, "mkdtemp")])
def test_an_error_for_a_missing_permission_names_the_folder(tmp_path, monkeypatch, writer, maker):
    def refuse(dir, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(dir / ".new.mtkit-tmp"))

    monkeypatch.setattr(f"tempfile.{maker}", refuse)
    with pytest.raises(PermissionError) as caught, writer(tmp_path / "new"):
        pass
    assert caught.value.filename == str(tmp_path)
