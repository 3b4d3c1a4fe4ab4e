"""The table of commands, each imported when it is asked for, so that `mtkit --help` is quick."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mtkit.cli.help import Command

# name: (module:function in mtkit.cli, what it does in one line)
COMMANDS = {
    "demo": ("demo:demo", "Train and try a small English-French translator."),
    "config": ("config:config", "Check a config file and print it with all defaults."),
    "train-tokenizer": ("train_tokenizer:train_tokenizer", "Train both tokenizers and report how they cut text."),
    "tokenize": ("tokenize:tokenize", "Cut lines into the model's pieces."),
    "detokenize": ("tokenize:detokenize", "Put pieces together to text again."),
    "plan": ("plan:print_plan", "What training a config will mean: memory, steps, time, disk."),
    "train": ("train:train", "Train a translator, or go on where it stopped."),
    "average": ("average:average", "Average the weights of checkpoints or models."),
    "distill": ("distill:distill", "Train a student on its teachers' translations."),
    "translate": ("translate:translate", "Translate sentences, the lines of a file, or a stream."),
    "back-translate": ("synthetic:back_translate", "Make training pairs of target-language text."),
    "forward-translate": ("synthetic:forward_translate", "Make training pairs of source-language text."),
    "evaluate": ("evaluate:evaluate", "Score a model, or given translations, on a test set."),
    "compare": ("compare:compare", "Compare systems: who is better, where and how surely."),
    "check": ("check:check", "Check a translator's behaviour by a suite: numbers, negation, names."),
    "score": ("score:score", "Score given pairs by the model's own probabilities."),
    "alternatives": ("alternatives:show_alternatives", "Other words for one place of a translation."),
    "calibrate": ("calibrate:calibrate", "Let a model tell how sure it is, learnt on dev."),
    "shortlist": ("shortlist:add_shortlist", "Learn which target tokens a source can need: faster decoding."),
    "export": ("export:export", "Write a model for another system: CTranslate2, Marian, Hugging Face."),
    "import": ("import_model:import_model", "Make a model of another system an mtkit bundle."),
}
INSPECT = {
    "steps": ("inspect.steps:show_steps", "The decoding loop, step by step."),
    "attention": ("inspect.attention:show_attention", "What each head of each layer looks at."),
    "embeddings": ("inspect.embeddings:show_embeddings", "The nearest tokens of words, and a map."),
    "positions": ("inspect.positions:show_positions", "How positions are encoded."),
    "masks": ("inspect.masks:show_masks", "Causal and padding masks, and proof that padding changes nothing."),
    "model": ("inspect.model:show_model", "Layers, shapes, parameters, multiply-adds."),
    "saliency": ("inspect.saliency:show_saliency", "Which source tokens each output token leans on."),
    "errors": ("inspect.errors:show_errors", "The pairs with the highest loss, and a sentence's nearest neighbours."),
}
DOCTOR = {
    "decode": ("doctor:decode", "Decode lines in ways that must not matter, and show any difference."),
    "resume": ("doctor:resume", "Repeat a run's last steps, and show any difference."),
}


class _Unloaded(TyperCommand):
    """A command's name and its line in the list of commands, until its module is imported."""

    def __init__(self, name: str, place: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help, rich_markup_mode=None)
        self._place = place

    def load(self) -> TyperCommand:
        module, _, function = self._place.partition(":")
        with _library_at_first_use():
            callback = getattr(import_module(f"mtkit.cli.{module}"), function)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(self.name, cls=Command, short_help=self.short_help)(callback)
        command = typer.main.get_command(app)
        assert isinstance(command, TyperCommand)
        return command


class CommandGroup(TyperGroup):
    """A group of commands of which only the one that is asked for is imported."""

    def __init__(self, table: dict[str, tuple[str, str]], groups: Sequence[CommandGroup] = (), **attrs: Any) -> None:
        attrs["commands"] = [*(_Unloaded(name, *entry) for name, entry in table.items()), *groups]
        super().__init__(**{"no_args_is_help": True, "rich_markup_mode": None, **attrs})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of these arguments, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name and command else command, rest

    def load(self, name: str) -> TyperCommand | CommandGroup:
        """Return a command, imported; a group as it is."""
        command: Any = self.commands[name]
        return command.load() if isinstance(command, _Unloaded) else command


class RootGroup(CommandGroup):
    """The command `mtkit`."""

    def __init__(self, **attrs: Any) -> None:
        groups = [
            CommandGroup(
                INSPECT,
                name="inspect",
                help="See inside a model: what the tutorials draw, drawn of yours.",
                short_help="See inside a model: steps, attention, embeddings, errors.",
            ),
            CommandGroup(DOCTOR, name="doctor", help="Check on a model or run of yours what mtkit promises."),
        ]
        super().__init__(COMMANDS, groups, **attrs)


class _LibraryModule(ModuleType):
    """A module of the library that is executed when the first name in it is read.

    As importlib.util.LazyLoader does it, but names that every module has (`__file__`, `__spec__`) execute nothing:
    torch reads them of all modules while it is imported.
    """

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            with _EXECUTION:  # another thread waits until the module is whole
                if loader := self.__dict__.pop("_unexecuted", None):
                    loader.exec_module(self)
                    self.__class__ = ModuleType  # type: ignore[assignment]
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


_EXECUTION = RLock()


class _LibraryLoader(Loader):
    """Makes modules that execute themselves later, with the loader that they would have had."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LibraryModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = module.__dict__["_unexecuted"] = self._loader


class _LibraryFinder(MetaPathFinder):
    """Finds the modules of mtkit's library where Python would."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("mtkit.") or name.startswith("mtkit.cli"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LibraryLoader(spec.loader)
        return spec


@contextmanager
def _library_at_first_use() -> Iterator[None]:
    """Have the library's modules executed at their first use, if they are imported in this block.

    So a command imports them at its top, by `from package import module`, and its help waits for none of them;
    `from module import name` executes the module at once.
    """
    finder = _LibraryFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
