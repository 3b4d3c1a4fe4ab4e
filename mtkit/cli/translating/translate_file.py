"""Translate a file to a file as a job that resumes after interruptions, and that processes and machines share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import mtkit
from mtkit.cli.translating.rendering import Rendering
from mtkit.errors import UsageError
from mtkit.translation import direction
from mtkit.translation.translator import n_best_problem

if TYPE_CHECKING:
    from mtkit.config.decoding import DecodeConfig
    from mtkit.documents.marked_lines import MarkedLines
    from mtkit.jobs import line_job
    from mtkit.translation.loading import SharedTranslator
    from mtkit.translation.session import Session


@dataclass(frozen=True)
class Form:
    """The contents of the output lines."""

    n_best: int | None = None
    prefix: str = ""
    as_json: bool = False
    tokens: bool = False
    alignments: bool = False
    markup: Literal["html"] | None = None

    def check(self, decode: DecodeConfig) -> None:
        """Raise UsageError if a translator with these settings cannot produce such lines."""
        if problem := n_best_problem(self.n_best or 1, decode):
            raise UsageError(f"--n-best: {problem}")
        if self.alignments and not self.as_json and decode.on_suspect == "mark":
            raise UsageError("--alignments numbers the words, and decode.on_suspect=mark adds words: give --json, too")

    def session(self, translator: mtkit.Translator, *, check_direction: bool = True) -> Lines | MarkedLines:
        """Return a session that produces output lines. check_direction: as in `Translator.session`."""
        if self.markup:
            from mtkit.documents import marked_lines  # imports torch

            return marked_lines.MarkedLines(translator, check_direction=check_direction)
        rendering = Rendering(translator, self.as_json, self.tokens, self.alignments)
        n_best = self.n_best or 1
        return Lines(translator.session(n_best=n_best, prefix=self.prefix, check_direction=check_direction), rendering)


@dataclass(frozen=True)
class Lines:
    """A translator's session, with the format of its output lines."""

    session: Session
    rendering: Rendering

    def translate(self, lines: Sequence[str], first_line: int | None = None) -> list[str]:
        """Return the lines of output, in order. first_line: number of the first; default: the next."""
        translations = self.session.translate(lines, first_line)
        return self.rendering.lines(translations, first_line or self.session.n_lines - len(lines) + 1)

    def note(self) -> dict[str, Any]:
        """Return the observations so far as JSON, for `absorb`."""
        return self.session.note()

    def absorb(self, note: Mapping[str, Any]) -> None:
        """Add the observations of another session with the same settings on the next lines."""
        self.session.absorb(note)

    def report(self) -> None:
        """Log the observations, if there are any."""
        self.session.report()


def translate_file(
    text: line_job.Text, output_path: Path, shared: SharedTranslator, form: Form, *, restart: bool
) -> None:
    """Translate a file, and report the observations on all lines, whichever process translated them."""
    from mtkit.jobs import line_job

    translator = shared.translator
    direction.warn_of_direction(text.read(), shared.members[0])
    done = line_job.run_line_job(
        text,
        output_path,
        partial(_work, shared.make, form),
        {**shared.identity(), "output": asdict(form)},
        shared.executor,
        window_lines=translator.window,
        restart=restart,
    )
    session = form.session(translator)
    for note in done.notes:
        session.absorb(note)
    session.report()


def _work(make_translator: Callable[[], mtkit.Translator], form: Form) -> line_job.Work:
    translator = make_translator()

    def translate(lines: Sequence[str], first_line: int) -> tuple[list[str], dict[str, Any]]:
        session = form.session(translator, check_direction=False)
        return session.translate(lines, first_line), session.note()

    return translate
