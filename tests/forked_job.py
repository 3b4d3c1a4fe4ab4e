"""Start processes as torchrun does, but load torch once for all of them: `forked_job.py N PROGRAM ARGUMENT...`.

It is for tests of what the processes do together, not of how they end: an error in one leaves the others alone.
"""

import os
import runpy
import socket
import sys

import mtkit.runs.train  # noqa: F401


def main() -> None:
    n, program, *arguments = sys.argv[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(WORLD_SIZE=n, LOCAL_WORLD_SIZE=n, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    processes = []
    for rank in range(int(n)):
        process = os.fork()
        if process == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            sys.argv = [program, *arguments]
            runpy.run_path(program, run_name="__main__")
            return
        processes.append(process)
    sys.exit(max([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes], key=abs))


if __name__ == "__main__":
    main()
