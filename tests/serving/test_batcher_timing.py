"""When the batcher waits for a fuller batch, how workers share it, and batches that fail or take long."""

import asyncio

import pytest
from batching import EN_FR, FakePool, run, simulated, started, translated, translated_after

from mtkit.config.serving import QueueConfig
from mtkit.serving.refusals import BadRequest, Busy, Fault
from mtkit.serving.workers.batcher import Batcher
from mtkit.serving.workers.pool import WorkerDied
from mtkit.serving.workers.queue import let_in


def test_a_single_client_never_waits_for_company():
    async def scenario():
        batcher, _ = started(linger_ms=100)
        start = asyncio.get_running_loop().time()
        for _ in range(5):
            await run(batcher, ["a"])
        return asyncio.get_running_loop().time() - start

    assert simulated(scenario()) < 0.1  # one wait would take as long


def test_while_others_are_open_a_request_waits_for_company():
    hold = asyncio.Event()

    async def first_is_held(message):
        if "held" in message["items"]:
            await hold.wait()
        return await translated(message)

    async def scenario():
        batcher, pool = started(first_is_held, n_workers=2, linger_ms=50)
        second = pool.workers.pop()  # so that the first worker takes all four
        others = [asyncio.ensure_future(run(batcher, ["held"])) for _ in range(4)]
        await asyncio.sleep(0.01)
        pool.workers.append(second)
        one = asyncio.ensure_future(run(batcher, ["one"]))
        await asyncio.sleep(0.01)
        two = asyncio.ensure_future(run(batcher, ["two"]))
        await asyncio.gather(one, two)
        hold.set()
        await asyncio.gather(*others)
        return pool.batches

    assert ["one", "two"] in simulated(scenario())


def test_a_worker_that_has_just_answered_waits_for_its_clients_to_come_back():
    hold = {name: asyncio.Event() for name in ("long", "short")}

    async def held(message):
        if (event := hold.get(message["items"][0])) is not None:
            await event.wait()
        return await translated(message)

    async def scenario():
        batcher, pool = started(held, n_workers=2, linger_ms=100)
        second = pool.workers.pop()
        others = [asyncio.ensure_future(run(batcher, ["long"])) for _ in range(4)]
        await asyncio.sleep(0.01)
        pool.workers.append(second)
        others.append(asyncio.ensure_future(run(batcher, ["short"])))
        await asyncio.sleep(0.12)
        others.append(asyncio.ensure_future(run(batcher, ["old"])))
        await asyncio.sleep(0.15)
        hold["short"].set()
        await asyncio.sleep(0.05)
        await run(batcher, ["new"])
        hold["long"].set()
        await asyncio.gather(*others)
        return pool.batches

    assert ["old", "new"] in simulated(scenario())


def test_workers_that_have_long_been_at_work_leave_their_share_to_others():
    hold = asyncio.Event()

    async def held(message):
        await (hold.wait() if "long" in message["items"] else asyncio.sleep(0.001))
        return await translated(message)

    async def scenario():
        batcher, pool = started(held, n_workers=4, linger_ms=0)
        for _ in range(60):
            await run(batcher, ["short"])  # so that it is known how long a batch takes
        asked = [asyncio.ensure_future(run(batcher, ["long"])) for _ in range(3)]
        await asyncio.sleep(0.1)
        asked += [asyncio.ensure_future(run(batcher, ["next"])) for _ in range(8)]
        await asyncio.sleep(0.05)
        hold.set()
        await asyncio.gather(*asked)
        return [len(batch) for batch in pool.batches if "next" in batch]

    assert simulated(scenario()) == [8]


def test_a_batch_that_fails_in_an_unforeseen_way_is_answered(caplog):
    async def failing(message):
        raise RuntimeError(message["items"][0])

    async def scenario():
        batcher, _ = started(failing)
        return await asyncio.gather(run(batcher, ["what the user wrote"]), return_exceptions=True)

    [fault] = simulated(scenario())
    assert isinstance(fault, Fault)
    assert "RuntimeError" in caplog.text and "what the user wrote" not in caplog.text


def test_a_text_that_was_in_a_refused_batch_outlives_a_worker():
    n_deaths = 0

    async def answer(message):
        nonlocal n_deaths
        if "bad" in message["items"]:
            return {"error": "data", "message": "bad"}
        if n_deaths == 0:
            n_deaths += 1
            raise WorkerDied("killed")
        return await translated(message)

    async def scenario():
        batcher, _ = started(answer)
        return await asyncio.gather(run(batcher, ["good"]), run(batcher, ["bad"]), return_exceptions=True)

    good, bad = simulated(scenario())
    assert good == ["en-fr: good"]
    assert isinstance(bad, BadRequest)


def test_no_worker_takes_more_than_its_share_of_all_that_is_asked():
    hold = asyncio.Event()

    async def scenario():
        batcher, pool = started(translated_after(hold), n_workers=2, linger_ms=0)
        second = pool.workers.pop()
        asked = [asyncio.ensure_future(run(batcher, ["first"])) for _ in range(2)]
        await asyncio.sleep(0.01)
        asked += [asyncio.ensure_future(run(batcher, ["next"])) for _ in range(6)]
        pool.workers.append(second)
        batcher.wake()
        await asyncio.sleep(0.01)
        sizes = [len(batch) for batch in pool.batches]
        hold.set()
        await asyncio.gather(*asked)
        return sizes

    assert simulated(scenario()) == [2, 4]


def test_only_the_first_batch_of_a_kind_may_take_as_long_as_loading():
    async def scenario():
        batcher = Batcher(QueueConfig(), 10.0, 300.0)
        pool = FakePool(1, translated, batcher)
        batcher.start(pool)  # type: ignore[arg-type]
        for text in ("one", "two", "three"):
            await run(batcher, [text])
        return pool.timeouts_s

    assert simulated(scenario()) == [300.0, 10.0, 10.0]


def test_a_trial_finds_room_in_a_full_queue():
    async def scenario():
        batcher = Batcher(QueueConfig(max_sentences=1), 10.0)
        waiting = asyncio.ensure_future(batcher.run(EN_FR, ["a"], [1]))
        with let_in():
            trial = asyncio.ensure_future(batcher.run(EN_FR, ["b"], [1]))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await batcher.run(EN_FR, ["c"], [1])
        n_waiting = batcher.queue.n_waiting
        for task in (waiting, trial):
            task.cancel()
        return n_waiting

    assert simulated(scenario()) == 2
