"""Signals ask a run to save and exit; signals that nohup or a script ignores stay ignored."""

import signal

import pytest

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
