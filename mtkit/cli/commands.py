"""List the commands, and import a command's module only when it runs, so that `mtkit --help` stays quick.

A command's module imports light modules at its top, and the rest of the library inside its functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mtkit.cli.help import Command

# name: (module:function in mtkit.cli, what it does in one line)
COMMANDS = {
    "demo": ("training.demo:demo", "Train and try a small English-French translator."),
    "config": ("training.config:config", "Check a config file and print it with all defaults."),
    "train-tokenizer": (
        "training.train_tokenizer:train_tokenizer",
        "Train both tokenizers and report how they split text.",
    ),
    "tokenize": ("translating.tokenize:tokenize", "Split lines into the model's pieces."),
    "detokenize": ("translating.tokenize:detokenize", "Join pieces into text."),
    "plan": ("training.plan:print_plan", "Predict the memory, steps, time and disk of a training."),
    "train": ("training.train:train", "Train a translator, or resume an interrupted run."),
    "adapt": ("training.adapt:adapt", "Adapt a model to a translation memory, and judge it."),
    "average": ("training.average:average", "Average the weights of checkpoints or models."),
    "distill": ("training.distill:distill", "Train a student on its teachers' translations."),
    "make-student": ("training.make_student:make_student", "Make a small, fast student of a model, for browsers."),
    "diversify": ("training.diversify:diversify", "Translate the training text again, as further training text."),
    "translate": ("translating.translate:translate", "Translate sentences, the lines of a file, or a stream."),
    "classify": ("judging.classify:classify", "Label sentences or pairs with a classifier."),
    "back-translate": ("training.synthetic:back_translate", "Make training pairs from target-language text."),
    "forward-translate": ("training.synthetic:forward_translate", "Make training pairs from source-language text."),
    "evaluate": ("judging.evaluate:evaluate", "Score a model, or files of translations, on a test set."),
    "compare": ("judging.compare:compare", "Compare systems: which is better, where, and how surely."),
    "check": ("judging.check:check", "Check how a translator behaves: numbers, names, ..."),
    "score": ("judging.score:score", "Score given translations by the model's probabilities."),
    "alternatives": (
        "translating.alternatives:show_alternatives",
        "Show other words for one position of a translation.",
    ),
    "calibrate": ("judging.calibrate:calibrate", "Calibrate a model's confidence on dev sentences."),
    "shortlist": ("translating.shortlist:add_shortlist", "Learn a shortlist of target tokens, for faster decoding."),
    "serve": ("shipping.serve:serve", "Serve translations to programs, and to people in a browser."),
    "export": ("shipping.export:export", "Write a model for other programs, or as a web page."),
    "import": ("shipping.import_model:import_model", "Convert another system's model to a bundle."),
}
INSPECT = {
    "steps": ("inspect.steps:show_steps", "Show the decoding loop, step by step."),
    "attention": ("inspect.attention:show_attention", "Show what each head of each layer looks at."),
    "embeddings": ("inspect.embeddings:show_embeddings", "Show the tokens nearest to words, and a map."),
    "positions": ("inspect.positions:show_positions", "Show how positions are encoded."),
    "masks": ("inspect.masks:show_masks", "Show masks, and prove that padding changes nothing."),
    "model": ("inspect.model:show_model", "Show layers, shapes, parameters, multiply-adds."),
    "saliency": ("inspect.saliency:show_saliency", "Show which source tokens each target token depends on."),
    "errors": ("inspect.errors:show_errors", "Find the pairs with the highest loss, or similar sentences."),
}
DATA = {
    "align": ("data.align:align", "Make sentence pairs from two documents."),
    "clean": ("data.clean:clean", "Apply rules that drop pairs which are not good translations."),
    "convert": ("data.convert:convert", "Convert corpora to another format, such as TMX to TSV."),
    "train-filter": ("data.train_filter:train_filter", "Train a model that tells good pairs from bad ones."),
    "select": ("data.select:select", "Select the lines of a text that are worth translating."),
    "choose": ("data.choose:choose", "Choose among translations by other systems, as training text."),
    "score": ("data.score:score", "Use such a filter to score how likely each pair is good."),
    "split": ("data.split:split", "Split a corpus into train, dev and test without overlap."),
    "report": ("data.report:report", "Show what is in a corpus, and what is wrong with it."),
    "doctor": ("data.doctor:doctor", "Find and repair shifted lines in two line-aligned files."),
}
MEMORY = {
    "build": ("memory.build:build", "Index translation memories for fast searches."),
    "search": ("memory.search:search", "Find the units that are most like a text."),
}
KEYS = {
    "add": ("shipping.keys:add", "Create an API key and print it."),
    "list": ("shipping.keys:print_list", "List the valid keys: name, date and limits."),
    "remove": ("shipping.keys:remove", "Revoke an API key."),
}
CORRECTIONS = {
    "list": ("shipping.corrections:print_list", "List the suggestions of users and their states."),
    "accept": ("shipping.corrections:accept", "Accept suggestions: they then apply to all callers."),
    "reject": ("shipping.corrections:reject", "Reject suggestions, also ones accepted earlier."),
    "export": ("shipping.corrections:export", "Write accepted corrections as a training corpus."),
}
DOCTOR = {
    "decode": ("shipping.doctor:decode", "Decode in several ways and show any differences."),
    "resume": ("shipping.doctor:resume", "Repeat a run's last steps and show any differences."),
}


class _Unloaded(TyperCommand):
    """The name and the summary of a command whose module is not imported yet."""

    def __init__(self, name: str, place: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help, rich_markup_mode=None)
        self._place = place

    def load(self) -> TyperCommand:
        module, _, function = self._place.partition(":")
        callback = getattr(import_module(f"mtkit.cli.{module}"), function)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(self.name, cls=Command, short_help=self.short_help)(callback)
        command = typer.main.get_command(app)
        assert isinstance(command, TyperCommand)
        return command


class CommandGroup(TyperGroup):
    """A group of commands that imports only the command to run."""

    def __init__(self, table: dict[str, tuple[str, str]], groups: Sequence[CommandGroup] = (), **attrs: Any) -> None:
        attrs["commands"] = [*(_Unloaded(name, *entry) for name, entry in table.items()), *groups]
        super().__init__(**{"no_args_is_help": True, "rich_markup_mode": None, **attrs})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import and return the command that these arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name and command else command, rest

    def load(self, name: str) -> TyperCommand | CommandGroup:
        """Import and return a command; return a group unchanged."""
        command: Any = self.commands[name]
        return command.load() if isinstance(command, _Unloaded) else command


# What other tools, and people, call `mtkit adapt`
_ADAPTING = frozenset({"finetune", "fine-tune", "tune", "adaptation", "customize", "retrain"})


class RootGroup(CommandGroup):
    """The top-level command `mtkit`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import and return the command that these arguments name; explain how to fine-tune if they name that."""
        if args and args[0].lower() in _ADAPTING:
            ctx.fail(
                f"no such command: {args[0]}. To adapt a model to a translation memory, use: mtkit adapt MODEL MEMORY "
                "--out FOLDER; to train from a config that sets train.init_from, use: mtkit train CONFIG"
            )
        return super().resolve_command(ctx, args)

    def __init__(self, **attrs: Any) -> None:
        groups = [
            CommandGroup(
                INSPECT,
                name="inspect",
                help="Look inside a model.",
                short_help="Look inside a model: steps, attention, embeddings, errors.",
            ),
            CommandGroup(DATA, name="data", help="Make a training corpus from the text that you have."),
            CommandGroup(MEMORY, name="memory", help="Build and search translation memories."),
            CommandGroup(KEYS, name="keys", help="Manage the API keys of `mtkit serve`."),
            CommandGroup(
                CORRECTIONS,
                name="corrections",
                help="Review the corrections that users of `mtkit serve` suggest, and train on them.",
                short_help="Review corrections that users suggest, and train on them.",
            ),
            CommandGroup(DOCTOR, name="doctor", help="Check that decoding and resuming are exact."),
        ]
        super().__init__(COMMANDS, groups, **attrs)
