"""`mtkit serve` before it serves; tests/serving/http/test_run.py has the rest."""

import os
import signal
import subprocess
import sys


def test_a_service_that_is_stopped_while_it_starts_ends_well(tmp_path):
    """systemd would call any other end a failure."""
    config = tmp_path / "serve.yaml"
    os.mkfifo(config)
    process = subprocess.Popen([sys.executable, "-m", "mtkit", "serve", "--config", config])
    with config.open("w"):  # waits until the command reads it
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
