"""The clock of train.budget starts with the command."""

from types import SimpleNamespace

from mtkit.cli.training import train as command
from mtkit.runs import train as training


def test_the_clock_of_a_budget_starts_before_the_config_is_read_and_the_library_imported(monkeypatch, tmp_path):
    ticks = iter(range(10**6))
    seen = {}

    def load(*_):
        seen["loaded"] = next(ticks)

    class Result:
        bundle = tmp_path

    def train(cfg, since, processes, executor):
        seen["since"] = since
        return Result

    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr(command, "load_run_config", load)
    monkeypatch.setattr(training, "train", train)
    command.train_run(tmp_path / "my.yaml", None)
    assert seen["since"] < seen["loaded"]
