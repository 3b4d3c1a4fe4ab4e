"""Compare `mtkit serve` with a running server of LibreTranslate's dialect, under the same load in turn.

    .venv/bin/python scripts/bench/serve_peer.py --model runs/sample-en-fr --port 5655

README.md beside this file says how LibreTranslate serves the same weights. Prints sentences a second, and the median
and 99th percentile of the time for one, lowest to highest of the rounds, for several numbers of clients.
"""

import argparse
import asyncio
from pathlib import Path

import uvloop
from serve_load import Load, closed_loop, translate
from serve_processes import Server, cpu_s

from mtkit.bundle import find_model
from mtkit.data.sample import read_sample

_REQUESTS = {1: 100, 8: 300, 64: 600}  # by clients


def main() -> None:
    """Measure in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="run of configs/sample-en-fr.yaml")
    parser.add_argument("--port", type=int, required=True, help="of the other server, on this machine")
    parser.add_argument("--pid", type=int, help="of the other server, to tell its CPU time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("build/bench-serve"), help="folder for the log")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    requests = [translate(src) for src, _ in read_sample()["train"]]
    loads: dict[tuple[str, int], list[Load]] = {}
    with Server(find_model(args.model), args.work / "peer.log") as server:
        for port in (server.port, args.port):
            asyncio.run(closed_loop(port, requests[:200], 8))
        for number in range(args.rounds):
            for n_clients, n_requests in _REQUESTS.items():
                some = requests[number * n_requests :][:n_requests]
                for name, port in (("mtkit", server.port), ("other", args.port)):
                    cpu = sum(server.cpu_s()) if name == "mtkit" else cpu_s(args.pid or 0)
                    load = asyncio.run(closed_loop(port, some, n_clients))
                    cpu = (sum(server.cpu_s()) if name == "mtkit" else cpu_s(args.pid or 0)) - cpu
                    print(
                        f"{name}, {n_clients} clients: {load.by_status}, {load.rate():.0f} sentences/s, "
                        f"{1000 * cpu / n_requests:.2f} CPU ms each",
                        flush=True,
                    )
                    loads.setdefault((name, n_clients), []).append(load)
    print("| server | clients | sentences/s | p50 ms | p99 ms |\n|-|-|-|-|-|")
    for (name, n_clients), some_loads in loads.items():
        columns = [[load.rate() for load in some_loads]]
        columns += [[load.percentile_ms(percent) for load in some_loads] for percent in (50, 99)]
        print(f"| {name} | {n_clients} |", " | ".join(f"{min(some):.0f} to {max(some):.0f}" for some in columns), "|")


if __name__ == "__main__":
    uvloop.install()
    main()
