"""The queue of sentences: what the next batch is."""

from collections import deque
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mtkit.config.serving import QueueConfig
from mtkit.serving.workers.queue import Call, Item, Queue
from mtkit.serving.workers.work import ModelVersion, Work

EN_FR, EN_DE = (Work("translate", ModelVersion(Path(name), "1")) for name in ("en-fr", "en-de"))


def batches(*calls, batch_tokens, n_idle=1, share=100):
    """All batches of calls, in order. calls: of each its work, the names of its items, and the tokens of an item."""
    queue = Queue(QueueConfig(batch_tokens=batch_tokens))
    waiting: Any = SimpleNamespace(done=lambda: False)
    found = []
    with ExitStack() as stack:
        for work, names, n_tokens in calls:
            stack.enter_context(queue.holding(Call(work, 0.0, deque(Item(name, n_tokens, waiting) for name in names))))
        for _ in range(sum(len(names) for _, names, _ in calls)):
            if queue:
                found.append("".join(item.content for item in queue.take(n_idle, share)[1]))
        assert not queue
        assert queue.n_waiting == 0
    return found


def test_a_batch_ends_with_the_item_that_fills_it():
    assert batches((EN_FR, "abcde", 5), batch_tokens=10) == ["ab", "cd", "e"]
    assert batches((EN_FR, "abcde", 4), batch_tokens=10) == ["abc", "de"]


def test_an_item_that_is_longer_than_a_batch_is_one():
    assert batches((EN_FR, "abc", 99), batch_tokens=10) == ["a", "b", "c"]


def test_requests_take_turns_in_a_batch_and_from_batch_to_batch():
    assert batches((EN_FR, "abc", 1), (EN_FR, "xy", 1), (EN_DE, "m", 1), batch_tokens=2) == ["ax", "m", "by", "c"]


def test_idle_workers_share_the_items_of_one_kind_of_work():
    assert batches((EN_FR, "abcd", 1), (EN_DE, "mnopqr", 1), batch_tokens=99, n_idle=2)[:2] == ["ab", "mno"]


def test_no_batch_has_more_than_a_share():
    assert batches((EN_FR, "abcd", 1), batch_tokens=99, share=3) == ["abc", "d"]
