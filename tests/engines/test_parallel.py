"""Workers: what several processes find is what one would find, and none of them fails in silence."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mtkit.config.schema import DecodeConfig
from mtkit.console import log
from mtkit.engines.parallel import ParallelEngine
from mtkit.errors import BundleError, MtkitError
from mtkit.search.hypothesis import Hypothesis, Segment


@dataclass
class Reverser:
    """An engine without a model: a translation is the source from its end; it ends with this process's number."""

    name: str = "native"
    max_positions: int | None = 77
    arithmetic: str = "fp32 on cpu"

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        assert len(segments) <= cfg.batch_sentences
        for number, segment in reversed(list(enumerate(segments))):
            first = segment.ids[0]
            if first == 1:
                raise MtkitError("line 1: no such word")
            if first == 2:
                raise KeyError("a mistake of ours")
            if first == 3:
                time.sleep(60)
            yield number, [Hypothesis([*reversed(segment.ids)], -float(n_best), -1.0, True)] * n_best


@dataclass
class Telling(Reverser):
    """Says in which process it works."""

    def decode(
        self, segments: Sequence[Segment], cfg: DecodeConfig, n_best: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        time.sleep(0.2)
        yield from ((number, [Hypothesis([os.getpid()], 0.0, 0.0, True)]) for number in range(len(segments)))


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


def test_every_segment_comes_back_once_under_its_own_number(engine: ParallelEngine) -> None:
    sources = [[10 + number] * (1 + number * 7 % 5) + [number] for number in range(50)]
    found = list(engine.decode(segments_of(*sources), DecodeConfig(batch_sentences=4), 2))
    assert sorted(number for number, _ in found) == list(range(50))
    for number, hypotheses in found:
        assert [h.ids for h in hypotheses] == [sources[number][::-1]] * 2
        assert hypotheses[0].log_prob == -2.0
    assert (engine.name, engine.max_positions, engine.arithmetic) == ("native", 77, "fp32 on cpu")


def test_no_segments_give_nothing(engine: ParallelEngine) -> None:
    assert list(engine.decode([], DecodeConfig(), 1)) == []


def test_what_a_stopped_call_left_behind_is_not_mistaken_for_the_next_ones_answers(engine: ParallelEngine) -> None:
    stopped = engine.decode(segments_of(*([[40, n] for n in range(20)])), DecodeConfig(batch_sentences=2), 1)
    next(stopped)
    stopped.close()
    found = dict(engine.decode(segments_of([50, 51], [52]), DecodeConfig(), 1))
    assert {number: h[0].ids for number, h in found.items()} == {0: [51, 50], 1: [52]}


def test_the_work_is_shared() -> None:
    with ParallelEngine(Telling, 2) as engine:
        found = dict(engine.decode(segments_of(*([[9]] * 8)), DecodeConfig(batch_sentences=2), 1))
    processes = {hypotheses[0].ids[0] for hypotheses in found.values()}
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.parametrize(
    ("first_id", "kind", "message"),
    [(1, MtkitError, "^line 1: no such word$"), (2, RuntimeError, "KeyError: 'a mistake of ours'")],
)
def test_an_error_in_a_worker_reaches_the_caller(first_id: int, kind: type[Exception], message: str) -> None:
    engine = ParallelEngine(Reverser, 2)
    with pytest.raises(kind, match=message):
        list(engine.decode(segments_of([9], [first_id, 4]), DecodeConfig(), 1))
    with pytest.raises(MtkitError, match="closed"):
        list(engine.decode(segments_of([9]), DecodeConfig(), 1))


def test_an_engine_that_cannot_be_made_says_why() -> None:
    with pytest.raises(BundleError, match=r"^runs/x/model: missing$"):
        ParallelEngine(no_model, 2)


def test_what_workers_warn_of_is_said_once_and_by_the_parent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    monkeypatch.setattr("mtkit.engines.parallel.log.log", lambda _level, message: said.append(message))
    ParallelEngine(warns, 2).close()
    assert said == ["no instructions for int8"]
    assert capfd.readouterr().err == ""


def test_a_killed_worker_is_an_error_and_no_waiting_for_ever() -> None:
    engine = ParallelEngine(Reverser, 2)
    victim = engine._workers[0].process
    killer = threading.Timer(0.5, lambda: os.kill(victim.pid or 0, signal.SIGKILL))
    killer.start()
    started = time.monotonic()
    with pytest.raises(MtkitError, match=r"killed by SIGKILL.*lower decode\.workers"):
        list(engine.decode(segments_of([3], [3]), DecodeConfig(), 1))
    assert time.monotonic() - started < 30


def test_closing_ends_the_processes() -> None:
    engine = ParallelEngine(Reverser, 1)
    pid = engine._workers[0].process.pid or 0
    os.kill(pid, 0)  # it is there
    engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what is held back is read from Linux' /proc")
def test_no_worker_is_interrupted_while_it_starts() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    engine = ParallelEngine(Reverser, 2)
    for worker in engine._workers:
        status = Path(f"/proc/{worker.process.pid}/status").read_text()
        [held_back] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk")]
        assert held_back >> (signal.SIGINT - 1) & 1
    engine.close()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == before


def test_interrupting_the_parent_ends_the_workers_too() -> None:
    engine = ParallelEngine(Reverser, 1)
    pid = engine._workers[0].process.pid or 0
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        list(engine.decode(segments_of([3]), DecodeConfig(), 1))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
