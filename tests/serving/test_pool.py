"""Worker processes that answer, die, hang and end."""

import asyncio
import itertools
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tiny_server import is_running

from mtkit.config.serving import QueueConfig
from mtkit.serving.workers import batcher as batchers
from mtkit.serving.workers import pool as pools
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.pool import Pool, WorkerDied
from mtkit.serving.workers.work import ModelVersion, Work

BAD = {"work": None}  # which a worker answers by a fault, without any model
SETTINGS: dict[str, Any] = {"decode": {}, "most_bytes": None}


def with_pool(scenario, n_workers=1, new_loop=asyncio.new_event_loop):
    """What scenario(pool) returns; the pool ends after it."""

    async def run():
        pool = Pool(n_workers, SETTINGS, lambda: None)
        await pool.start()
        try:
            return await scenario(pool)
        finally:
            await pool.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(run())


async def replaced(pool, worker):
    while worker in pool.workers or not pool.workers:
        await asyncio.sleep(0.01)
    return pool.workers[0]


def test_a_worker_survives_a_message_that_it_does_not_understand():
    async def scenario(pool):
        [worker] = pool.workers
        answers = [await pool.ask(worker, BAD, 300) for _ in range(2)]
        assert pool.idle == [worker]
        return [answer["error"] for answer in answers]

    assert with_pool(scenario) == ["fault", "fault"]


def test_a_worker_that_is_killed_while_idle_is_replaced():
    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        os.kill(worker.pid, signal.SIGKILL)
        new = await replaced(pool, worker)
        return (await pool.ask(new, BAD, 300))["error"], pool.n_deaths

    assert with_pool(scenario) == ("fault", 1)


def test_a_worker_that_is_killed_at_work_is_replaced():
    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        worker.is_busy = True
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match=r"ended \(killed by SIGKILL\)"):
            await pool.ask(worker, BAD, 300)
        new = await replaced(pool, worker)
        return (await pool.ask(new, BAD, 300))["error"], pool.n_deaths

    assert with_pool(scenario) == ("fault", 1)


def test_a_worker_whose_end_the_loop_has_seen_is_replaced():
    uvloop = pytest.importorskip("uvloop")  # it closes the pipe, and refuses to write into it in a way of its own

    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        worker.is_busy = True  # as a batch is on its way to it
        os.kill(worker.pid, signal.SIGKILL)
        await worker.ended()
        await asyncio.sleep(0.1)
        with pytest.raises(WorkerDied, match=r"ended \(killed by SIGKILL\)"):
            await pool.ask(worker, BAD, 300)
        new = await replaced(pool, worker)
        return (await pool.ask(new, BAD, 300))["error"]

    assert with_pool(scenario, new_loop=uvloop.new_event_loop) == "fault"


def test_a_worker_that_ends_after_its_answer_is_replaced(monkeypatch):
    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        ask = worker.ask

        async def ask_and_die(message, timeout_s):
            answer = await ask(message, timeout_s)
            os.kill(worker.pid, signal.SIGKILL)
            await worker.ended()
            await asyncio.sleep(0.05)
            return answer

        monkeypatch.setattr(worker, "ask", ask_and_die)
        assert (await pool.ask(worker, BAD, 300))["error"] == "fault"
        new = await replaced(pool, worker)
        return (await pool.ask(new, BAD, 300))["error"], pool.n_deaths

    assert with_pool(scenario) == ("fault", 1)


def test_a_worker_that_hangs_is_killed_and_replaced():
    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(WorkerDied, match=r"did not answer within 0\.2 s"):
            await pool.ask(worker, BAD, 0.2)
        new = await replaced(pool, worker)
        assert not is_running(worker.pid)
        return (await pool.ask(new, BAD, 300))["error"]

    assert with_pool(scenario) == "fault"


def test_a_worker_that_cannot_be_started_is_tried_again(monkeypatch):
    monkeypatch.setattr(pools, "_FIRST_PAUSE_S", 0.01)
    start, failures = pools.start_worker, iter([OSError("too many open files"), OSError("no memory")])

    async def start_later(*arguments):
        for failure in failures:
            raise failure
        return await start(*arguments)

    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        monkeypatch.setattr(pools, "start_worker", start_later)
        os.kill(worker.pid, signal.SIGKILL)
        new = await replaced(pool, worker)
        return (await pool.ask(new, BAD, 300))["error"]

    assert with_pool(scenario) == "fault"


def test_a_worker_that_dies_before_its_first_answer_is_replaced_more_and_more_slowly(monkeypatch):
    monkeypatch.setattr(pools, "_FIRST_PAUSE_S", 0.2)

    async def scenario(pool):
        starts = []
        for _ in range(3):
            [worker] = pool.workers
            os.kill(worker.pid, signal.SIGKILL)
            await replaced(pool, worker)
            starts.append(asyncio.get_running_loop().time())
        return [after - before for before, after in itertools.pairwise(starts)]

    first, second = with_pool(scenario)
    assert first >= 0.4  # 0.2 s before the first replacement, then twice as long
    assert second >= 0.8


def test_a_question_that_is_given_up_takes_its_worker_along():
    """Its answer would be taken for that of the next question."""

    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        question = asyncio.ensure_future(pool.ask(worker, BAD, 300))
        await asyncio.sleep(0)
        question.cancel()
        await asyncio.wait((question,))
        return await replaced(pool, worker) is not worker

    assert with_pool(scenario)


def test_a_process_whose_callers_have_all_left_is_replaced(monkeypatch, caplog):
    monkeypatch.setattr(batchers, "_ABANDONED_S", 0.1)

    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        batcher = Batcher(QueueConfig(), 60)
        batcher.start(pool)
        work = Work("translate", ModelVersion(Path("missing"), "1"))
        worker.done.add(work.kind)  # it is not loading the model
        os.kill(worker.pid, signal.SIGSTOP)  # like a search without end
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await batcher.run(work, [["a", False]], [1])
        new = await replaced(pool, worker)
        await batcher.close()
        return is_running(worker.pid), (await pool.ask(new, BAD, 300))["error"]

    assert with_pool(scenario) == (False, "fault")
    assert "no caller is waiting" in caplog.text


def test_all_processes_end_with_the_pool(monkeypatch):
    monkeypatch.setattr(pools, "_STOP_S", 0.5)

    async def scenario(pool):
        await pool.ask(pool.workers[0], BAD, 300)
        os.kill(pool.workers[1].pid, signal.SIGSTOP)  # and this one will not end by itself
        return [worker.pid for worker in pool.workers]

    assert not any(map(is_running, with_pool(scenario, n_workers=2)))


def test_a_worker_ends_when_the_service_is_gone():
    async def scenario(pool):
        [worker] = pool.workers
        await pool.ask(worker, BAD, 300)
        worker._process.stdin.close()  # as the system does it if the service is killed
        async with asyncio.timeout(300):
            return await worker._process.wait()

    assert with_pool(scenario) == 0
