"""Choose the languages of a model that reads them as tokens, such as M2M-100 and NLLB.

The token of the source language comes before each source, as a tag does. That of the target language is the decoder's
<start>.
"""

from collections.abc import Sequence
from pathlib import Path

from mtkit.config.schema import Config
from mtkit.config.tags import tags_of
from mtkit.errors import BundleError
from mtkit.languages import are_one_language
from mtkit.tokens.tokenizer import Tokenizer, language_of_piece, language_piece

_OPTIONS = {"src_lang": "--src-lang", "tgt_lang": "--tgt-lang"}


def in_languages(config: Config, tokenizers: tuple[Tokenizer, Tokenizer], folder: Path) -> tuple[Config, int | None]:
    """Return a model's config for decode.src_lang and decode.tgt_lang, by default the languages of data.

    Also return the token that <start> must have the embedding of, None if it has it already: the weights are for the
    target language of data. folder: of the model, for messages. Raises BundleError for a language that it lacks.
    """
    data, decode = config.data, config.decode
    asked = {"src_lang": decode.src_lang, "tgt_lang": decode.tgt_lang}
    if not config.model.end_first:
        _refuse_others(config, asked, tokenizers[0], folder)
        return config, None
    known = tokenizers[0].languages()
    chosen = {
        key: find_language(code or getattr(data, key), known, f"{folder}: {_name(key, code)}")
        for key, code in asked.items()
    }
    others = [tag for tag in tags_of(decode.tag) if language_of_piece(tag) is None]
    tag = " ".join([language_piece(chosen["src_lang"]), *others])
    config = config.model_copy(
        update={"data": data.model_copy(update=chosen), "decode": decode.model_copy(update={"tag": tag})}
    )
    if find_language(data.tgt_lang, known, f"{folder}: data.tgt_lang") == chosen["tgt_lang"]:
        return config, None
    [start_id] = tokenizers[1].piece_ids([language_piece(chosen["tgt_lang"])])
    return config, start_id


def find_language(code: str, known: Sequence[str], place: str) -> str:
    """Return which of the known codes means the same language as this one: fra_Latn for fr.

    place: of the code, for messages. Raises BundleError if none does, or several do.
    """
    if code in known:
        return code
    alike = [other for other in known if are_one_language(code, other)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise BundleError(f"{place}: {code} can mean {' or '.join(alike)}; choose one of them")
    raise BundleError(f"{place}: the model has no language {code}; it has {', '.join(known)}")


def _name(key: str, code: str | None) -> str:
    return f"data.{key}" if code is None else f"decode.{key} ({_OPTIONS[key]})"


def _refuse_others(config: Config, asked: dict[str, str | None], src_tokenizer: Tokenizer, folder: Path) -> None:
    """Raise BundleError if languages are asked for that are not those of a model with one direction."""
    for key, code in asked.items():
        own = getattr(config.data, key)
        if code is not None and not are_one_language(code, own):
            tags = src_tokenizer.tags()
            remedy = f"; choose the target language with decode.tag: {', '.join(tags)}" if tags else ""
            raise BundleError(
                f"{folder}: {_name(key, code)}: {code}, but this model translates from {config.data.src_lang} to "
                f"{config.data.tgt_lang} only{remedy}"
            )
