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


LOAD_ALL = """
import typer.main
from mtkit.cli import app
group = typer.main.get_command(app)
for name in group.commands:
    group.load(name)
"""


def run(*code):
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "".join(map(textwrap.dedent, code))], capture_output=True, text=True, check=True
    )


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


def test_a_library_module_is_executed_when_a_name_in_it_is_read():
    code = """
    import sys
    from mtkit.data import corpus
    assert corpus.__file__.endswith("corpus.py") and "read_pairs" not in vars(corpus)
    corpus.read_pairs
    assert type(corpus) is type(sys) and "read_pairs" in vars(corpus)
    assert not hasattr(corpus, "read_pair")
    import pickle
    assert pickle.loads(pickle.dumps(corpus.read_pairs)) is corpus.read_pairs
    """
    run(LOAD_ALL, code)


def test_threads_that_read_a_name_at_once_execute_its_module_once():
    code = """
    from concurrent.futures import ThreadPoolExecutor
    from mtkit.runs import plan
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: plan.make_plan, range(32)))
    assert len(set(made)) == 1
    """
    run(LOAD_ALL, code)


def test_a_name_that_is_missing_is_an_attribute_error():
    code = """
    from mtkit.data import corpus
    try:
        corpus.no_such_name
    except AttributeError as error:
        print(error)
    """
    shown = run(LOAD_ALL, code).stdout
    assert "mtkit.data.corpus" in shown and "no_such_name" in shown


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
