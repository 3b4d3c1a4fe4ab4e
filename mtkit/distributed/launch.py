"""Join the job that torchrun started: `torchrun --nproc-per-node N -m mtkit train ...` starts N processes."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging import ERROR
from pathlib import Path
from types import FrameType

from mtkit.console import log
from mtkit.distributed.communicator import ALONE, Communicator
from mtkit.errors import MtkitError


@contextmanager
def processes_of_job() -> Iterator[Communicator]:
    """Connect the processes that torchrun started for the length of the block, or use this process alone.

    If several fail, one raises the error and the others end silently. When one dies, all end. Only process 0 logs.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    rank, local_rank, n_local = map(_torchrun_number, ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if rank:
        log.setLevel(ERROR)
    from mtkit.distributed.process_group import ProcessGroup  # loads torch

    processes = ProcessGroup(local_rank, n_local)
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield processes
    except KeyboardInterrupt:
        if processes.is_main:
            raise
        raise SystemExit(130) from None
    except Exception as error:
        if not processes.report_here():
            raise SystemExit(1) from None
        _tell_torchrun(error)
        raise
    finally:
        if sys.exc_info()[0] is None:  # after an error the other processes may be gone
            processes.close()


def _torchrun_number(name: str) -> int:
    try:
        return int(os.environ[name])
    except KeyError:
        raise MtkitError(
            f"the environment sets WORLD_SIZE={os.environ['WORLD_SIZE']} but not {name}: start several processes with "
            "torchrun, or unset WORLD_SIZE to train with one"
        ) from None


def _tell_torchrun(error: Exception) -> None:
    """Write the message to torchrun's error file, so that torchrun's own long report ends with it."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        with suppress(OSError):
            Path(path).write_text(json.dumps({"message": str(error), "timestamp": int(time.time())}), encoding="utf-8")


def _leave(signal_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + signal_number)
