"""Worker processes: their results are those of one process, and every failure becomes an error."""

import os
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.engines.parallel import ParallelEngine
from mtkit.errors import BundleError, MtkitError
from mtkit.search.hypothesis import Hypothesis, Segment


@dataclass
class Reverser:
    """An engine without a model: a translation is the source reversed."""

    name: str = "native"
    max_positions: int | None = 77
    arithmetic: str = "fp32 on cpu"

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        assert len(segments) <= cfg.batch_sentences
        for index, segment in reversed(list(enumerate(segments))):
            first = segment.ids[0]
            if first == 1:
                raise MtkitError("line 1: no such word")
            if first == 2:
                raise KeyError("a mistake of ours")
            if first == 3:
                time.sleep(600)
            yield index, [Hypothesis([*reversed(segment.ids)], -float(n_best), -1.0, True)] * n_best


@dataclass
class ShowsProcess(Reverser):
    """An engine whose translations are the id of its process."""

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        time.sleep(0.2)
        yield from ((index, [Hypothesis([os.getpid()], 0.0, 0.0, True)]) for index in range(len(segments)))


def no_model() -> Reverser:
    raise BundleError("runs/x/model: missing")


def warns() -> Reverser:
    log.warning("no instructions for int8")
    return Reverser()


def segments_of(*sources: Sequence[int]) -> list[Segment]:
    return [Segment(ids, max_len=9) for ids in sources]


@pytest.fixture(scope="module")
def engine() -> Iterator[ParallelEngine]:
    with ParallelEngine(Reverser, 2) as engine:
        yield engine


def test_every_segment_comes_back_once_with_its_index(engine: ParallelEngine) -> None:
    sources = [[10 + index] * (1 + index * 7 % 5) + [index] for index in range(50)]
    results = list(engine.decode(segments_of(*sources), DecodeConfig(batch_sentences=4), 2))
    assert sorted(index for index, _ in results) == list(range(50))
    for index, hypotheses in results:
        assert [h.ids for h in hypotheses] == [sources[index][::-1]] * 2
        assert hypotheses[0].log_prob == -2.0
    assert (engine.name, engine.max_positions, engine.arithmetic) == ("native", 77, "fp32 on cpu")


def test_no_segments_give_nothing(engine: ParallelEngine) -> None:
    assert list(engine.decode([], DecodeConfig(), 1)) == []


def test_answers_to_a_stopped_call_are_not_taken_for_those_of_the_next(engine: ParallelEngine) -> None:
    stopped = engine.decode(segments_of(*([[40, n] for n in range(20)])), DecodeConfig(batch_sentences=2), 1)
    next(stopped)
    assert isinstance(stopped, Generator)
    stopped.close()
    results = dict(engine.decode(segments_of([50, 51], [52]), DecodeConfig(), 1))
    assert {index: h[0].ids for index, h in results.items()} == {0: [51, 50], 1: [52]}


def test_the_work_is_shared() -> None:
    with ParallelEngine(ShowsProcess, 2) as engine:
        results = dict(engine.decode(segments_of(*([[9]] * 8)), DecodeConfig(batch_sentences=2), 1))
    processes = {hypotheses[0].ids[0] for hypotheses in results.values()}
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.parametrize(
    ("first_id", "kind", "message"),
    [(1, MtkitError, "^line 1: no such word$"), (2, RuntimeError, "KeyError: 'a mistake of ours'")],
)
def test_an_error_in_a_worker_reaches_the_caller(first_id: int, kind: type[Exception], message: str) -> None:
    engine = ParallelEngine(Reverser, 1)
    with pytest.raises(kind, match=message):
        list(engine.decode(segments_of([9], [first_id, 4]), DecodeConfig(), 1))
    with pytest.raises(MtkitError, match="closed"):
        list(engine.decode(segments_of([9]), DecodeConfig(), 1))


def test_an_engine_that_cannot_be_made_says_why() -> None:
    with pytest.raises(BundleError, match=r"^runs/x/model: missing$"):
        ParallelEngine(no_model, 2)


def test_the_parent_logs_the_warnings_of_workers_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    messages: list[str] = []
    monkeypatch.setattr("mtkit.engines.parallel.log.log", lambda _level, message: messages.append(message))
    ParallelEngine(warns, 2).close()
    assert messages == ["no instructions for int8"]
    assert capfd.readouterr().err == ""


def test_a_killed_worker_is_an_error_at_once() -> None:
    engine = ParallelEngine(Reverser, 2)
    victim = engine._workers[0].process.pid
    killer = threading.Timer(0.5, lambda: os.kill(victim, signal.SIGKILL))
    killer.start()
    started = time.monotonic()
    with pytest.raises(MtkitError, match=r"SIGKILL.*decode\.workers"):
        list(engine.decode(segments_of([3], [3]), DecodeConfig(), 1))
    assert time.monotonic() - started < 300  # the other worker would take longer


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what is held back is read from Linux' /proc")
def test_no_worker_is_interrupted_while_it_starts_and_closing_ends_it() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    engine = ParallelEngine(Reverser, 1)
    pid = engine._workers[0].process.pid
    status = Path(f"/proc/{pid}/status").read_text()
    [held_back] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk")]
    assert held_back >> (signal.SIGINT - 1) & 1
    engine.close()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == before
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_interrupting_the_parent_ends_the_workers_too() -> None:
    engine = ParallelEngine(Reverser, 1)
    pid = engine._workers[0].process.pid
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        list(engine.decode(segments_of([3]), DecodeConfig(), 1))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
