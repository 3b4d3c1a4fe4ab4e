"""Measure on this machine, over the loopback, whether `mtkit serve` is as fast and reliable as it promises.

    .venv/bin/python scripts/bench/serve.py --model runs/sample-en-fr
    .venv/bin/python scripts/bench/serve.py --model runs/sample-en-fr --only overload --minutes 5

throughput  64 clients of single sentences reach at least 80 % of the library (`mtkit translate`) with as many threads
alone       the median time of one client is at most 1.3 times that of `translate_text` with one thread
overload    requests arrive at four times the capacity: each is answered by 200, 429, 503 or 504, the 99th percentile is
            below the deadline, memory stays flat, and as many are translated a second as before
kills       a worker is killed every 10 s: no wrong, lost or swapped answer
reload      the bundle is replaced under load, then the server: no failed request
clients     slow, idle and leaving clients do not disturb the others

Library and server take turns for a few rounds. The load generator runs on the same cores, so its CPU time is printed.
Prints tables, and exits with 1 if a bar is missed. Ratios are comparable between machines, absolute speeds are not.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from serve_load import Clients, Connection, Load, closed_loop, open_loop, translate
from serve_processes import Library, Server

from mtkit.bundle import find_model
from mtkit.cores import usable_cores
from mtkit.data.sample import read_sample

_ANSWERS = {200, 429, 503, 504}
_CLIENTS = 64
_IDLE, _SLOW = 1000, 200  # connections
_RELOAD_S = 60.0
_CPU_AFTER_LEAVING = "CPU seconds of server and workers after they left"


@dataclass(frozen=True)
class Bench:
    """What all bars share."""

    model: Path
    work: Path
    engine: str
    n_workers: int
    n_requests: int
    minutes: float
    deadline_s: float
    rounds: int
    sentences: list[str]

    def server(self, name: str, *settings: str, model: Path | None = None) -> Server:
        """Start a server; its log is in the work folder."""
        usual = [f"decode.engine={self.engine}", f"workers={self.n_workers}", f"limits.deadline_s={self.deadline_s}"]
        return Server(model or self.model, self.work / f"{name}-{self.engine}.log", [*usual, *settings])

    def library(self, n_processes: int, threads: int) -> Library:
        """Start the library."""
        return Library(self.model, [f"decode.engine={self.engine}"], n_processes, threads)


Result = dict[str, Any]  # of a bar: figures by name, and "passed"


def throughput(bench: Bench) -> Result:
    """64 clients of single sentences, compared to the library."""
    n = 1500 if bench.engine == "native" else 4000
    lines = bench.sentences[:n]
    requests = [translate(line) for line in lines]
    rates: dict[str, list[float]] = {"threads": [], "processes": [], "server": []}
    costs: list[list[float]] = []
    with (
        bench.library(1, bench.n_workers) as threads,
        bench.library(bench.n_workers, 1) as processes,
        bench.server("throughput") as server,
    ):
        for library in (threads, processes):
            library.seconds(lines[:200])
        asyncio.run(closed_loop(server.port, requests[:500], _CLIENTS))
        for _ in range(bench.rounds):
            rates["threads"].append(n / threads.seconds(lines))
            rates["processes"].append(n / processes.seconds(lines))
            before = server.cpu_s()
            load = asyncio.run(closed_loop(server.port, requests, _CLIENTS))
            assert load.by_status == {200: n}, load.by_status
            rates["server"].append(load.rate())
            costs.append([*_since(before, server), load.client_cpu_s])
        memory = server.pss_mb()
    ratios = [own / max(others) for *others, own in zip(*rates.values(), strict=True)]
    cpu = [1000 * statistics.median(column) / n for column in zip(*costs, strict=True)]
    return {
        "of the library's": _rounded(ratios, 3),
        "sentences/s, library with threads": _rounded(rates["threads"]),
        "sentences/s, library with processes": _rounded(rates["processes"]),
        "sentences/s, server": _rounded(rates["server"]),
        "CPU ms a request: server, workers, clients": _rounded(cpu, 3),
        "p50, p99 ms": _rounded([load.percentile_ms(50), load.percentile_ms(99)]),
        "PSS MB: server, workers": _rounded(memory, 0),
        "passed": statistics.median(ratios) >= 0.8,
    }


def _since(before: Sequence[float], server: Server) -> list[float]:
    """Return the CPU time of server and workers since then."""
    return [now - then for then, now in zip(before, server.cpu_s(), strict=True)]


def _rounded(values: Sequence[float], digits: int = 1) -> list[float]:
    return [round(value, digits) for value in values]


def alone(bench: Bench) -> Result:
    """One client, compared to the library."""
    lines = bench.sentences[:200]
    requests = [translate(line) for line in lines]
    ours, theirs = [], []
    with bench.library(1, 1) as library, bench.server("alone") as server:
        library.median_s(lines[:50])
        asyncio.run(closed_loop(server.port, requests[:50], 1))
        for _ in range(bench.rounds):
            theirs.append(1000 * library.median_s(lines))
            ours.append(asyncio.run(closed_loop(server.port, requests, 1)).percentile_ms(50))
    ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
    return {
        "times the library's": _rounded(ratios, 3),
        "p50 ms, library": _rounded(theirs, 2),
        "p50 ms, server": _rounded(ours, 2),
        "passed": statistics.median(ratios) <= 1.3,
    }


def overload(bench: Bench) -> Result:
    """Four times the capacity for some minutes."""
    requests = [translate(line) for line in bench.sentences]
    n_slices = max(3, round(2 * bench.minutes))
    loads: list[Load] = []
    memory: list[float] = []
    with bench.server("overload") as server:
        capacity = asyncio.run(closed_loop(server.port, requests[:4000], _CLIENTS)).rate()
        for number in range(n_slices):
            before = server.cpu_s()
            load = asyncio.run(open_loop(server.port, requests, 4 * capacity, 60 * bench.minutes / n_slices, number))
            cores = [seconds / load.seconds for seconds in (*_since(before, server), load.client_cpu_s)]
            loads.append(load)
            memory.append(sum(server.pss_mb()))
            print(
                f"  {load.by_status}, {load.rate():.0f} of 200 a second, p50 {load.percentile_ms(50):.0f} ms, "
                f"p99 {load.percentile_ms(99):.0f} ms, of all {load.percentile_ms(99, None):.0f} ms, longest wait for "
                f"a connection {load.longest_wait_s:.1f} s, cores of server, "
                f"workers and clients {_rounded(cores, 2)}, PSS {memory[-1]:.0f} MB",
                flush=True,
            )
        after = asyncio.run(closed_loop(server.port, requests[:4000], _CLIENTS)).rate()
        code = server.end()
    rates = [load.rate() for load in loads]
    worst_ms = max(load.percentile_ms(99, None) for load in loads)
    statuses = sum((Counter(load.by_status) for load in loads), Counter[int]())
    return {
        "capacity before, after, sentences/s": _rounded([capacity, after]),
        "by status": dict(statuses),
        "200 a second": _rounded(rates),
        "of the capacity": round(statistics.median(rates) / capacity, 3),
        "p99 ms": _rounded([load.percentile_ms(99, None) for load in loads], 0),
        "PSS MB": _rounded(memory, 0),
        "exit code": code,
        "passed": set(statuses) <= _ANSWERS
        and worst_ms <= 1000 * bench.deadline_s
        and memory[-1] < 1.05 * memory[0]
        and min(rates) > 0.8 * max(rates)
        and after > 0.8 * capacity
        and code == 0,
    }


def kills(bench: Bench) -> Result:
    """A worker is killed every ten seconds, while many texts are served whose translations are known."""
    rng = random.Random(1)
    texts = [
        " ".join(rng.sample(bench.sentences, 3)) if index % 10 == 9 else bench.sentences[index % len(bench.sentences)]
        for index in range(bench.n_requests)
    ]
    wanted = list(dict.fromkeys(texts))
    with bench.library(bench.n_workers, 1) as library:
        expected = dict(zip(wanted, library.texts(wanted), strict=True))
    killed: list[int] = []

    async def kill(server: Server) -> None:
        while True:
            await asyncio.sleep(10)
            with suppress(ProcessLookupError, IndexError):
                os.kill(pid := rng.choice(server.workers), signal.SIGKILL)
                killed.append(pid)

    async def serve(server: Server) -> Load:
        killing = asyncio.create_task(kill(server))
        load = await closed_loop(server.port, [translate(text) for text in texts], _CLIENTS)
        killing.cancel()
        return load

    with bench.server("kills") as server:
        load = asyncio.run(serve(server))
        code = server.end()
    wrong = [
        (texts[reply.index], text)
        for reply in load.replies
        if reply.status == 200 and (text := _text(reply.body)) != expected[texts[reply.index]]
    ]
    (bench.work / f"wrong-{bench.engine}.json").write_text(json.dumps(wrong, ensure_ascii=False, indent=1), "utf-8")
    return {
        "requests": len(load.replies),
        "different translations": len(set(expected.values())),
        "by status": load.by_status,
        "wrong": len(wrong),
        "workers killed": len(killed),
        "sentences/s": round(load.rate(), 1),
        "longest s": round(max(reply.seconds for reply in load.replies), 2),
        "exit code": code,
        "passed": not wrong and load.by_status == {200: len(texts)} and bool(killed) and code == 0,
    }


def _text(body: bytes) -> str:
    return str(json.loads(body)["translatedText"])


def reload(bench: Bench) -> Result:
    """Another version of the bundle takes the place of the first under load; later, the server gets SIGTERM."""
    versions = _two_versions(bench)
    texts = bench.sentences[:500]
    requests = [translate(text) for text in texts]
    expected = []
    for version in versions:
        with Library(version, [f"decode.engine={bench.engine}"], bench.n_workers, 1) as library:
            expected.append(library.texts(texts))
    current = bench.work / "current"
    _point(current, versions[0])
    with bench.server("reload", model=current) as server:
        load, seconds = asyncio.run(_swap(server, requests, current, versions[1]))
        later = asyncio.run(closed_loop(server.port, requests, _CLIENTS))
        drained, code, end_s = asyncio.run(_drain(server, requests))
    kinds: Counter[str] = Counter()
    for reply in load.replies:
        first, second = (some[reply.index % len(texts)] for some in expected)
        text = _text(reply.body) if reply.status == 200 else None
        kinds[
            "same" if text == first == second else "old" if text == first else "new" if text == second else "wrong"
        ] += 1
    late = sum(_text(reply.body) != expected[1][reply.index] for reply in later.replies)
    return {
        "by status": load.by_status,
        "translations of old and new version": dict(kinds),
        "not of the new version afterwards": late,
        "seconds until the new version was served": round(seconds, 2),
        "requests in work when SIGTERM came": drained.by_status,
        "seconds until the server had ended": round(end_s, 2),
        "exit code": code,
        "passed": set(load.by_status) == {200}
        and kinds["wrong"] == late == code == 0
        and kinds["new"] > 0
        and drained.by_status == {200: _CLIENTS},
    }


def _two_versions(bench: Bench) -> list[Path]:
    """Return two bundles of the same run: as it is, and the mean of all its checkpoints."""
    versions = [bench.work / f"{bench.engine}-{name}" for name in ("before", "after")]
    for version in versions:
        shutil.rmtree(version, ignore_errors=True)
    shutil.copytree(bench.model, versions[0])
    commands = [["average", str(bench.model.parent), "--out", str(versions[1])]]
    if bench.engine == "ctranslate2":
        commands.append(["export", "--to", "ctranslate2", "--model", str(versions[1])])
    for command in commands:
        subprocess.run([sys.executable, "-m", "mtkit", *command], check=True, capture_output=True)
    return versions


def _point(link: Path, folder: Path) -> None:
    """Make a symbolic link lead to a folder, at once."""
    new = link.with_name(f"{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(folder, target_is_directory=True)
    new.replace(link)


async def _swap(server: Server, requests: Sequence[bytes], current: Path, version: Path) -> tuple[Load, float]:
    """Replace the bundle under load; return the load, and how long it took until the new version was served."""
    is_done = False
    running = asyncio.create_task(closed_loop(server.port, [*requests] * 1000, _CLIENTS, until=lambda: is_done))
    await asyncio.sleep(3)
    _point(current, version)
    server.send(signal.SIGHUP)
    start = time.monotonic()
    while "1 model changed" not in server.log():
        await asyncio.sleep(0.05)
        if time.monotonic() > start + _RELOAD_S:
            raise SystemExit(f"the new version was not served:\n{server.log()}")
    seconds = time.monotonic() - start
    await asyncio.sleep(3)
    is_done = True
    return await running, seconds


async def _drain(server: Server, requests: Sequence[bytes]) -> tuple[Load, int, float]:
    """End the server while it works; return what became of the requests, its exit code, and the seconds it took."""
    running = asyncio.create_task(closed_loop(server.port, requests[:_CLIENTS], _CLIENTS))
    await asyncio.sleep(0.04)  # by now all have arrived, and few are done
    start = time.monotonic()
    code = await asyncio.to_thread(server.end)
    return await running, code, time.monotonic() - start


def clients(bench: Bench) -> Result:
    """Slow, idle and leaving clients."""
    with bench.server("clients") as server:
        return asyncio.run(_clients(server, bench.sentences))


async def _clients(server: Server, sentences: Sequence[str]) -> Result:
    requests = [translate(text) for text in sentences[:2000]]
    await closed_loop(server.port, requests, 16)
    without = await closed_loop(server.port, requests, 16)
    others = [await Connection.open(server.port) for _ in range(_IDLE + _SLOW)]
    sending = asyncio.create_task(_send_slowly(others[:_SLOW]))
    beside = await closed_loop(server.port, requests, 16)
    sending.cancel()
    for connection in others:
        connection.close()
    after_leaving = await _leave(server, sentences)
    return {
        "sentences/s without others": round(without.rate(), 1),
        f"sentences/s beside {_IDLE:,} idle and {_SLOW} slow connections": round(beside.rate(), 1),
        "by status": beside.by_status,
        **after_leaving,
        "passed": beside.rate() > 0.8 * without.rate()
        and set(beside.by_status) == {200}
        and after_leaving[_CPU_AFTER_LEAVING] < 1.0,
    }


async def _send_slowly(connections: Sequence[Connection]) -> None:
    """Send a request, a byte a second."""
    for byte in translate("Slow."):
        for connection in connections:
            if not connection.is_closed:
                connection.send(bytes([byte]))
        await asyncio.sleep(1)


async def _leave(server: Server, sentences: Sequence[str]) -> Result:
    """Ask for a lot, leave, and look at what the workers still do."""
    texts = [" ".join(sentences[start : start + 120]) for start in range(0, 480, 120)]
    leaving = [await Connection.open(server.port) for _ in texts]
    for connection, text in zip(leaving, texts, strict=True):
        connection.send(translate(text))
    await asyncio.sleep(0.05)
    n_received = sum(connection.has_reply for connection in leaving)
    for connection in leaving:
        connection.close()
    before = sum(server.cpu_s())
    reply = await Clients(server.port).ask(0, translate(sentences[0]))
    await asyncio.sleep(2)
    return {
        "texts of 120 sentences whose clients left after 50 ms; of them answered before": [len(texts), n_received],
        "ms that the next client waited": round(1000 * reply.seconds),
        _CPU_AFTER_LEAVING: round(sum(server.cpu_s()) - before, 2),
    }


BARS: dict[str, Callable[[Bench], Result]] = {
    bar.__name__: bar for bar in (throughput, alone, overload, kills, reload, clients)
}


def main() -> int:
    """Measure the bars; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="run of configs/sample-en-fr.yaml")
    parser.add_argument("--only", choices=list(BARS), nargs="+", default=list(BARS))
    parser.add_argument("--engines", choices=["ctranslate2", "native"], nargs="+", default=["ctranslate2"])
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--requests", type=int, default=20_000, help="while workers are killed")
    parser.add_argument("--minutes", type=float, default=5.0, help="of overload")
    parser.add_argument("--deadline", type=float, default=10.0, help="of the server under overload, in seconds")
    parser.add_argument("--rounds", type=int, default=3, help="of library and server in turn")
    parser.add_argument("--work", type=Path, default=Path("build/bench-serve"), help="folder for what is made here")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    sentences = [src for src, _ in read_sample()["train"]]
    results: dict[str, Result] = {}
    for engine in args.engines:
        bench = Bench(
            find_model(args.model).resolve(),
            args.work.resolve(),
            engine,
            args.workers,
            args.requests,
            args.minutes,
            args.deadline,
            args.rounds,
            sentences,
        )
        for name in args.only:
            start = time.monotonic()
            result = BARS[name](bench)
            results[f"{name}, {engine}"] = result
            print(f"{name}, {engine}: {'passed' if result['passed'] else 'MISSED'} ({time.monotonic() - start:.0f} s)")
            for figure, value in result.items():
                if figure not in ("passed", "slices"):
                    print(f"  {figure}: {value}")
            sys.stdout.flush()
    (args.work / "serve.json").write_text(json.dumps(results, indent=1), "utf-8")
    return 0 if all(result["passed"] for result in results.values()) else 1


if __name__ == "__main__":
    uvloop.install()
    sys.exit(main())
