"""The batcher, over workers that are coroutines: what is right, lost, swapped or refused does not depend on a model."""

import asyncio
import random

import pytest
from batching import EN_DE, EN_FR, run, simulated, started, translated, translated_after
from hypothesis import given
from hypothesis import strategies as st

from mtkit.serving.refusals import BadRequest, Busy, EndsWorkers, Fault
from mtkit.serving.workers import batcher as batcher_module
from mtkit.serving.workers.pool import WorkerDied


@given(
    requests=st.lists(st.tuples(st.sampled_from([EN_FR, EN_DE]), st.integers(0, 12)), min_size=1, max_size=20),
    n_workers=st.integers(1, 3),
    batch_tokens=st.integers(1, 40),
    seed=st.integers(0, 1000),
)
def test_each_request_gets_its_own_results_though_workers_die(requests, n_workers, batch_tokens, seed):
    chance = random.Random(seed)
    n_deaths = 0

    async def dies_sometimes(message):
        nonlocal n_deaths
        await asyncio.sleep(chance.choice([0, 0.001]))
        if n_deaths < 2 and chance.random() < 0.3:  # an item survives two
            n_deaths += 1
            raise WorkerDied("killed")
        return await translated(message)

    async def all_at_once():
        batcher, _ = started(dies_sometimes, n_workers, batch_tokens=batch_tokens, linger_ms=1)
        results = await asyncio.gather(
            *(
                run(batcher, [f"{number}.{i}" for i in range(size)], work)
                for number, (work, size) in enumerate(requests)
            )
        )
        assert (batcher.queue.n_waiting, batcher.queue.n_open) == (0, 0)
        await batcher.close()
        return results

    assert simulated(all_at_once()) == [
        [f"{work.model.folder}: {number}.{i}" for i in range(size)] for number, (work, size) in enumerate(requests)
    ]


def test_a_batch_holds_one_kind_of_work():
    async def scenario():
        batcher, pool = started()
        await asyncio.gather(run(batcher, ["a", "b"], EN_FR), run(batcher, ["c"], EN_DE), run(batcher, ["d"], EN_FR))
        return pool.batches

    assert simulated(scenario()) == [["a", "d", "b"], ["c"]]


def test_a_short_request_does_not_wait_for_a_long_one_that_came_first():
    done = []

    async def scenario():
        batcher, pool = started(batch_tokens=4)

        async def request(name, n):
            await run(batcher, [f"{name}{i}" for i in range(n)])
            done.append(name)

        await asyncio.gather(request("long", 20), request("short", 1))
        return pool.batches

    batches = simulated(scenario())
    assert done == ["short", "long"]
    assert "short0" in batches[0]


def test_idle_workers_share_what_waits():
    async def slow(message):
        await asyncio.sleep(0.01)
        return await translated(message)

    async def scenario():
        batcher, pool = started(slow, n_workers=2)
        await run(batcher, list("abcdef"))
        return pool.batches

    assert simulated(scenario()) == [["a", "b", "c"], ["d", "e", "f"]]


def test_a_full_queue_refuses_and_says_when_to_come_back():
    hold = asyncio.Event()

    async def scenario():
        batcher, _ = started(translated_after(hold), max_sentences=3, linger_ms=0)
        first = asyncio.ensure_future(run(batcher, ["in work"]))
        await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(run(batcher, ["1", "2"]))
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="2 sentences are waiting") as refusal:
            await run(batcher, ["3", "4"])
        assert refusal.value.retry_after_s == 1
        hold.set()
        return await first + await waiting

    assert simulated(scenario()) == ["en-fr: in work", "en-fr: 1", "en-fr: 2"]


def test_an_empty_queue_takes_a_request_longer_than_itself():
    async def scenario():
        batcher, _ = started(max_sentences=3)
        return await run(batcher, list("abcde"))

    assert len(simulated(scenario())) == 5


def test_what_was_abandoned_before_its_turn_is_not_done():
    async def scenario():
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(message):
            asked.set()
            await go_on.wait()
            return await translated(message)

        batcher, pool = started(slow, linger_ms=0)
        first = asyncio.ensure_future(run(batcher, ["first"]))
        await asked.wait()
        abandoned = asyncio.ensure_future(run(batcher, ["abandoned 1", "abandoned 2"]))
        kept = asyncio.ensure_future(run(batcher, ["kept"]))
        while batcher.queue.n_waiting < 3:
            await asyncio.sleep(0)
        abandoned.cancel()
        go_on.set()
        await asyncio.gather(first, kept)
        assert batcher.queue.n_waiting == 0
        return pool.batches

    assert simulated(scenario()) == [["first"], ["kept"]]


@pytest.mark.parametrize("n_left", [0, 1])
def test_a_batch_is_given_up_once_all_its_callers_have_left(n_left, monkeypatch):
    monkeypatch.setattr(batcher_module, "_ABANDONED_S", 0.01)
    ends = []

    async def scenario():
        hold = asyncio.Event()

        async def answer(message):
            try:
                return await translated_after(hold)(message)
            except asyncio.CancelledError:
                ends.append("stopped")
                raise

        batcher, pool = started(answer)
        pool.workers[0].done.add(EN_FR.kind)
        requests = [asyncio.ensure_future(run(batcher, [text])) for text in ("a", "b")]
        await asyncio.sleep(0.05)
        for request in requests[n_left:]:
            request.cancel()
        await asyncio.wait(requests[n_left:])
        await asyncio.sleep(0.05)
        hold.set()
        results = await asyncio.gather(*requests[:n_left])
        await batcher.drain()
        again = await run(batcher, ["c"])
        await batcher.close()
        return results, again

    assert simulated(scenario()) == ([["en-fr: a"]][:n_left], ["en-fr: c"])
    assert ends == ["stopped"][n_left:]


@pytest.mark.parametrize("item", ["a", ["a", True]], ids=["first", "first with codes"])
def test_a_worker_that_loads_a_model_goes_on_after_its_callers_have_left(item, monkeypatch):
    monkeypatch.setattr(batcher_module, "_ABANDONED_S", 0.0)

    async def scenario():
        hold = asyncio.Event()
        batcher, pool = started(translated_after(hold))
        if item != "a":  # the alignment of words is loaded apart from the translator
            pool.workers[0].done.add(EN_FR.kind)
        request = asyncio.ensure_future(run(batcher, [item]))
        await asyncio.sleep(0.02)
        request.cancel()
        await asyncio.sleep(0.02)
        hold.set()
        await batcher.drain()
        await batcher.close()
        return pool.workers[0].done

    assert simulated(scenario()) == EN_FR.kinds([item])


def test_a_worker_that_soon_finishes_an_abandoned_batch_is_kept():
    async def scenario():
        hold, ends = asyncio.Event(), []

        async def answer(message):
            try:
                return await translated_after(hold)(message)
            finally:
                ends.append(hold.is_set())

        batcher, _ = started(answer)
        request = asyncio.ensure_future(run(batcher, ["a"]))
        await asyncio.sleep(0.05)
        request.cancel()
        await asyncio.sleep(0.05)
        hold.set()
        await batcher.drain()
        await batcher.close()
        return ends

    assert simulated(scenario()) == [True]


def test_an_item_that_ends_every_worker_fails_alone():
    async def killed_by_poison(message):
        if "poison" in message["items"]:
            raise WorkerDied("killed")
        return await translated(message)

    async def scenario():
        batcher, _ = started(killed_by_poison)
        return await asyncio.gather(*(run(batcher, [item]) for item in ("a", "poison", "b")), return_exceptions=True)

    first, poisoned, last = simulated(scenario())
    assert (first, last) == (["en-fr: a"], ["en-fr: b"])
    assert isinstance(poisoned, EndsWorkers)
    assert "ended 3 workers" in str(poisoned)
    assert poisoned.status == 400  # clients send again what is answered by 5xx


def test_an_item_that_the_worker_refuses_fails_alone():
    async def refuses_one(message):
        if "wrong" in message["items"]:
            return {"error": "data", "message": "cannot be encoded"}
        return await translated(message)

    async def scenario():
        batcher, _ = started(refuses_one)
        return await asyncio.gather(*(run(batcher, [item]) for item in ("a", "wrong", "b")), return_exceptions=True)

    first, wrong, last = simulated(scenario())
    assert (first, last) == (["en-fr: a"], ["en-fr: b"])
    assert isinstance(wrong, BadRequest)
    assert str(wrong) == "cannot be encoded"


def test_a_request_that_fails_takes_its_other_items_with_it():
    async def refuses_one(message):
        if "wrong" in message["items"]:
            return {"error": "data", "message": "cannot be encoded"}
        return await translated(message)

    async def scenario():
        batcher, pool = started(refuses_one)
        with pytest.raises(BadRequest):
            await run(batcher, ["wrong", "b", "c"])
        await batcher.drain()
        return pool.batches

    batches = simulated(scenario())
    assert batches[:2] == [["wrong", "b", "c"], ["wrong"]]
    assert ["c"] not in batches


def test_a_batch_whose_worker_dies_is_done_again_without_what_was_abandoned():
    die = asyncio.Event()

    async def dies_once(message):
        if not die.is_set():
            await die.wait()
            raise WorkerDied("killed")
        return await translated(message)

    async def scenario():
        batcher, pool = started(dies_once)
        kept, abandoned = (asyncio.ensure_future(run(batcher, [item])) for item in ("kept", "abandoned"))
        await asyncio.sleep(0.01)
        abandoned.cancel()
        die.set()
        await kept
        return pool.batches

    assert simulated(scenario()) == [["kept", "abandoned"], ["kept"]]


def test_a_fault_of_a_worker_is_not_shown_to_callers():
    async def fault(message):
        return {"error": "fault", "message": "Traceback: /home/secret"}

    async def scenario():
        batcher, _ = started(fault)
        await run(batcher, ["a"])

    with pytest.raises(Fault, match="its log says why"):
        simulated(scenario())
