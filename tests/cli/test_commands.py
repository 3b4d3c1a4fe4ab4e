"""Commands and the library's modules are imported no sooner than they are needed."""

import subprocess
import sys
import textwrap

import pytest
import typer.main
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.cli.commands import CommandGroup

HEAVY = {"torch", "numpy", "sentencepiece", "sacrebleu", "yaml", "matplotlib"}


def every_command():
    """The words of each command."""

    def walk(group, words):
        for name, command in group.commands.items():
            yield [*words, name]
            if isinstance(command, CommandGroup):
                yield from walk(command, [*words, name])

    return list(walk(typer.main.get_command(app), []))


def run(code):
    """Run code in a process of its own."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)


def test_no_commands_help_loads_torch_or_another_heavy_package():
    code = f"""
    import sys
    from typer.testing import CliRunner
    from mtkit.cli import app
    for words in {every_command()}:
        result = CliRunner().invoke(app, [*words, "--help"])
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("Usage: ")
    print(*sys.modules)
    """
    assert HEAVY & {name.partition(".")[0] for name in run(code).stdout.split()} == set()


@pytest.mark.parametrize("words", ["doctor", "inspect"])
def test_a_group_lists_its_commands(words):
    result = CliRunner().invoke(app, [words, "--help"])
    assert result.exit_code == 0
    for name in [command[1] for command in every_command() if command[0] == words and len(command) == 2]:
        assert f"\n  {name} " in result.stdout


def test_help_names_values_plainly_and_says_their_bounds_and_defaults():
    shown = " ".join(CliRunner().invoke(app, ["evaluate", "--help"]).stdout.split())
    assert "--bootstrap N " in shown
    assert "[default: 1000; at least 2]" in shown
    assert "--split test|dev " in shown
    assert "[default: test]" in shown
    shown = " ".join(CliRunner().invoke(app, ["inspect", "positions", "--help"]).stdout.split())
    assert "[default: 64; 2 to 2048]" in shown
    for words in every_command():
        shown = CliRunner().invoke(app, [*words, "--help"]).stdout
        assert " range>" not in shown
        assert "<list" not in shown


def test_help_shows_required_options_before_the_others():
    shown = CliRunner().invoke(app, ["export", "--help"]).stdout
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[0] == "Required options:"
    assert shown.index("--to ") < shown.index("--model ")
