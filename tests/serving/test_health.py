"""What the service knows of its workers: whether they hang, lack a model, and can translate."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, patch

import pytest

from mtkit.config.serving import ServeConfig
from mtkit.serving.models import Model, ServedModels
from mtkit.serving.service import Service
from mtkit.serving.workers.pool import Worker as PoolWorker
from mtkit.serving.workers.pool import WorkerDied
from mtkit.serving.workers.work import ModelVersion, Work

MODELS = [Model(ModelVersion(Path(f"{src}-{tgt}"), "1"), src, tgt, 1) for src, tgt in (("en", "fr"), ("fr", "de"))]
EN_FR, FR_DE = (Work("translate", model.version).kind for model in MODELS)


class Worker:
    """A worker that has done these kinds of work, and does what it is told to."""

    pid = 7

    def __init__(self, *done, busy_s=None, is_frozen=False):
        self.done = set(done)
        self.is_busy = busy_s is not None
        self.busy_since = time.monotonic() - (busy_s or 0)
        self.is_frozen = is_frozen

    def kill_if_frozen(self):
        return self.is_frozen


def service_of(*workers, answer=None, **settings):
    """A service with these workers, and the messages that they got; answer: what they say, or raise."""
    with patch("mtkit.serving.service.read_models", lambda *_: ServedModels(MODELS)):
        service = Service(ServeConfig.model_validate({"workers": 1, **settings}))
    asked = []

    async def ask(worker, message, timeout_s):
        asked.append((worker, message.get("work", {}).get("model")))
        if isinstance(answer, Exception):
            raise answer
        worker.is_busy = False
        return answer or {"results": []}

    service.pool = SimpleNamespace(workers=list(workers), ask=ask)  # type: ignore[assignment]
    return service, asked


@pytest.mark.parametrize(
    ("workers", "able"),
    [
        ([], False),  # none is alive
        ([(None,)], False),  # it is loading, or cannot load, every model
        ([(("other", "translate", False),)], False),
        ([(EN_FR,)], True),
        ([(FR_DE, 5)], True),
        ([(EN_FR, 16)], False),
        ([(EN_FR, 16), (EN_FR,)], True),
    ],
)
def test_a_service_can_translate_while_a_worker_with_a_model_answers(workers, able):
    """workers: of each, what it has done, and for how many seconds it has been busy."""
    service, _ = service_of(*(Worker(done, busy_s=next(iter(busy_s), None)) for done, *busy_s in workers))
    assert service.can_translate is able


def look(service, *, times=1):
    """What the service does at its next looks."""

    async def looks():
        for _ in range(times):
            service.look_at_workers()
            await asyncio.gather(*service._looks)

    asyncio.run(looks())


def test_idle_workers_load_the_models_that_they_lack_and_then_only_show_that_they_answer():
    worker = Worker(EN_FR)
    service, asked = service_of(worker)
    look(service, times=2)
    assert asked == [(worker, MODELS[1].version.as_json()), (worker, None)]
    assert worker.done == {EN_FR, FR_DE}


def test_under_a_cap_on_memory_workers_do_not_take_turns_at_loading_for_nothing():
    worker = Worker(EN_FR)
    service, asked = service_of(worker, memory_mb=1)
    look(service)
    assert asked == [(worker, None)]


def test_a_model_that_cannot_be_loaded_is_logged_once_and_makes_the_service_unable(caplog):
    service, _ = service_of(Worker(), Worker(), answer={"error": "bundle", "message": "en-fr: no such folder"})
    look(service, times=2)
    assert not service.can_translate
    assert caplog.text.count("en-fr: no such folder") == 1


def test_a_worker_that_dies_during_a_look_is_left_to_the_pool():
    service, asked = service_of(Worker(EN_FR, FR_DE), answer=WorkerDied("worker 7 ended"))
    look(service)
    assert len(asked) == 1


def test_a_busy_worker_is_not_asked_and_one_that_hangs_is_named(caplog):
    service, asked = service_of(Worker(EN_FR, busy_s=1), Worker(EN_FR, busy_s=1, is_frozen=True))
    look(service)
    assert asked == []
    assert caplog.text.count("worker 7 hangs") == 1


def test_a_process_counts_as_frozen_if_it_uses_no_processor_time_between_eight_looks(monkeypatch):
    ticks = iter([5, *[6] * 7, *[7] * 8])
    monkeypatch.setattr("mtkit.serving.workers.pool._cpu_ticks", lambda pid: next(ticks))
    process = Mock()
    worker = PoolWorker(process)
    assert [worker.kill_if_frozen() for _ in range(15)] == [False] * 15
    assert worker.kill_if_frozen()
    process.kill.assert_called_once_with()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processor times as Linux gives them")
def test_a_process_that_is_stopped_uses_no_processor_time():
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        os.kill(busy.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, busy.pid, os.WSTOPPED)
        worker = PoolWorker(busy)  # type: ignore[arg-type]
        assert [worker.kill_if_frozen() for _ in range(8)] == [False] * 7 + [True]
        assert busy.wait() == -signal.SIGKILL
