"""Two replicas under Ray Serve, one of them killed under load: is any answer wrong, and how many are lost?

    .venv/bin/python scripts/bench/serve_ray.py --model runs/sample-en-fr --ray build/venv-ray/bin/serve

--ray: the program of an environment with `mtkit[serve-ray,fast]`. Prints what came back, and exits with 1 if an
answer is wrong or the replica is not replaced.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from serve_load import Load, closed_loop, translate
from serve_processes import Library

from mtkit.bundle import find_model
from mtkit.data.sample import read_sample

_PORT = 8000  # Ray's
_START_S = 120.0
_N_REQUESTS, _N_CLIENTS = 2500, 32


def main() -> int:
    """Serve, kill, count; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="run of configs/sample-en-fr.yaml")
    parser.add_argument("--ray", type=Path, required=True, metavar="SERVE", help="Ray's program `serve`")
    parser.add_argument("--work", type=Path, default=Path("build/bench-serve"), help="folder for what is made here")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = find_model(args.model).resolve()
    texts = [src for src, _ in read_sample()["train"][:_N_REQUESTS]]
    with Library(model, [], 1, 1) as library:
        expected = library.texts(texts)
    config = args.work.resolve() / "ray.yaml"
    config.write_text(f"models: [{json.dumps(str(model))}]\nworkers: 1\n", "utf-8")
    command = [str(args.ray), "run", "mtkit.serving.http.ray:application", f"config={config}", "replicas=2"]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with (args.work / "ray.log").open("wb") as log:
        ray = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        asyncio.run(_wait())
        before = _replicas()
        load = asyncio.run(_kill_one(before[0], [translate(text) for text in texts]))
        time.sleep(10)
        after = _replicas()
    finally:
        ray.send_signal(signal.SIGINT)
        ray.wait(60)
    wrong = sum(
        reply.status == 200 and json.loads(reply.body)["translatedText"] != expected[reply.index]
        for reply in load.replies
    )
    print(f"{load.by_status} (0: the connection was closed), {wrong} wrong, {load.rate():.0f} sentences/s")
    print(f"replicas before and after: {before}, {after}")
    return 0 if not wrong and len(after) == 2 and before[0] not in after else 1


def _replicas() -> list[int]:
    """Return the process ids of the replicas."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in re.findall(r"^\s*(\d+) ray::ServeReplica:default:mtkit", listed, re.MULTILINE)]


async def _wait() -> None:
    until = time.monotonic() + _START_S
    while (await closed_loop(_PORT, [translate("The cat sleeps.")], 1)).by_status != {200: 1}:
        if time.monotonic() > until:
            raise SystemExit("Ray Serve did not start; its log is in the work folder")
        await asyncio.sleep(1)


async def _kill_one(replica: int, requests: list[bytes]) -> Load:
    """Send the requests; kill the replica after three seconds."""
    running = asyncio.ensure_future(closed_loop(_PORT, requests, _N_CLIENTS))
    await asyncio.sleep(3)
    os.kill(replica, signal.SIGKILL)
    return await running


if __name__ == "__main__":
    sys.exit(main())
