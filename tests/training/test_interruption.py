"""Signals ask a run to save and exit; signals that nohup or a script ignores stay ignored."""

import shutil
import signal

import pytest

from mtkit.runs.train import train
from mtkit.training.interruption import stop_request


@pytest.fixture
def hangup_does():
    """Call it with what SIGHUP does before the run."""
    original = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, original)


def test_ctrl_c_that_a_script_ignores_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_request() as request:
        signal.raise_signal(signal.SIGINT)
    assert not request.received
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_a_hangup_requests_a_stop(hangup_does, caplog):
    hangup_does(signal.SIG_DFL)
    with stop_request() as request:
        signal.raise_signal(signal.SIGHUP)
    assert request.received
    assert "SIGHUP: saving a checkpoint" in caplog.text
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_a_hangup_that_nohup_ignores_stays_ignored(hangup_does):
    hangup_does(signal.SIG_IGN)
    with stop_request() as request:
        signal.raise_signal(signal.SIGHUP)
    assert not request.received


@pytest.mark.parametrize(
    "place", ["training.preparation.parallel_text.ParallelText.files_for_bundle", "runs.train.add_export"]
)
def test_a_model_whose_writing_was_interrupted_is_written_again(make_config, tmp_path, monkeypatch, place):
    def interrupt(*_):
        raise KeyboardInterrupt

    whole = train(make_config(max_steps=5)).bundle.rename(tmp_path / "whole")
    shutil.rmtree(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(f"mtkit.{place}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(make_config(max_steps=5))
    exported = []
    monkeypatch.setattr("mtkit.runs.train.add_export", lambda run, _: exported.append(run.run_dir / "model"))
    for _ in range(2):
        bundle = train(make_config(max_steps=5)).bundle
        assert {path.name for path in bundle.iterdir()} == {path.name for path in whole.iterdir()}
    assert exported == [bundle], "only the first start had to write it again"
