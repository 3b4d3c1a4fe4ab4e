"""Describe what a program must do itself around an exported model, because no exported file can contain it."""

from pathlib import Path

from mtkit.bundle import BundleFiles
from mtkit.config.schema import Config
from mtkit.config.tags import TOKENS, tags_of
from mtkit.files import write_text
from mtkit.interop.support import Target
from mtkit.interop.vocabulary import with_language_tokens
from mtkit.tokens.tokenizer import language_of_piece, language_piece
from mtkit.version import __version__

README = "README.md"
_CTRANSLATE2 = """\
A CTranslate2 model with its tokenizers. `ctranslate2.Translator` translates lists of SentencePiece's pieces: those of
`src.spm` to those of `tgt.spm`. `parity.json` compares it with the mtkit bundle that it comes from. `mtkit import`
turns this folder into a bundle again.
"""
_LANGUAGES = """\

It translates between many languages. Put `{}` before the pieces of each source and `</s>` after them, and call
`translate_batch` with `target_prefix=[["{}"]] * n` for n sources. Each translation starts with that token: remove it.
`{}` lists the tokens of the other languages.
"""
_ARGOS = """\
A package for Argos Translate and LibreTranslate. Argos Translate splits text into sentences by itself, with MiniSBD,
because this package contains no splitter. `model/parity.json` compares the model with the mtkit bundle that it comes
from.
"""
_TEXTS: dict[Target, str] = {"ctranslate2": _CTRANSLATE2, "argos": _ARGOS}


def left_to_the_program(config: Config) -> dict[str, str]:
    """Return what a program must do itself, in a sentence or two, by the config's key; {} if there is nothing."""
    left = {}
    if patterns := config.data.placeholders:
        left["data.placeholders"] = (
            f"Before tokenization, replace what these regular expressions match by {TOKENS[0]} to {TOKENS[-1]}, each "
            "match of a line by another one; in the translation, put the matches back.\n\n"
            + "\n".join(f"      {pattern}" for pattern in patterns)
        )
    corpora = [*config.data.train, *config.data.dev]
    tags = [[one for one in tags_of(corpus.tag) if language_of_piece(one) is None] for corpus in corpora]
    if pieces := ", ".join(dict.fromkeys(f"`{' '.join(tag)}`" for tag in tags if tag)):
        left["data.train.tag"] = f"Put a tag before the pieces of each source, a piece for each part: {pieces}."
    return left


def write_readme(folder: Path, files: BundleFiles, target: Target) -> None:
    """Write the exported folder's README.md, if the format needs one or a program must do something itself."""
    left = left_to_the_program(files.config)
    if target not in _TEXTS and not left:
        return
    text = f"# A model exported by mtkit {__version__}\n\n" + _TEXTS.get(target, "")
    if files.config.model.end_first and target == "ctranslate2":
        data = files.config.data
        names = with_language_tokens([language_piece(data.src_lang), language_piece(data.tgt_lang)])
        text += _LANGUAGES.format(*names, "shared_vocabulary.json")
    if left:
        text += (
            "\n## What your program must do itself\n\nmtkit does this around the model; no file of this folder does.\n"
        )
        text += "".join(f"\n- `{key}`: {what}\n" for key, what in left.items())
    write_text(folder / README, text)
