"""Name the metrics and their settings, and load sacreBLEU's metric for them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from mtkit.console import log
from mtkit.errors import MtkitError
from mtkit.languages import CHINESE, WITHOUT_SPACES, code_of_name, english_name, primary_code
from mtkit.text.words import STANDS_ALONE

MetricName = Literal["BLEU", "chrF2", "chrF2++", "TER"]  # sacreBLEU's names; chrF2++ is what others call chrF++
TokenizerName = Literal[
    "13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200"
]  # how BLEU splits text into words
METRICS: tuple[MetricName, ...] = get_args(MetricName)


@dataclass(frozen=True)
class MetricSettings:
    """Settings that change the scores of the same text; the defaults are sacreBLEU's."""

    tokenize: TokenizerName = "13a"  # BLEU only; none is for tokenized text
    lowercase: bool = False  # BLEU and chrF; TER always ignores case

    def load(self, name: MetricName, *, sentence: bool = False) -> Any:
        """Return sacreBLEU's metric of this name. Raises MtkitError if its tokenizer needs a missing package or file.

        sentence: score single sentences; BLEU then counts only n-grams that fit into a short one.
        """
        # Here, because `mtkit evaluate --help` needs the names alone.
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.metrics.ter import TER

        if name == "BLEU":
            _check_model(self.tokenize)
            try:
                return BLEU(
                    tokenize=self.tokenize,
                    lowercase=self.lowercase,
                    effective_order=sentence,
                    force=True,  # no advice on stderr
                )
            except RuntimeError as error:  # MeCab is missing
                language = self.tokenize.partition("-")[0]
                raise MtkitError(
                    f"tokenizer {self.tokenize} needs an extra of sacreBLEU: pip install 'sacrebleu[{language}]'"
                ) from error
        if name == "TER":
            return TER()
        return CHRF(word_order=2 if name == "chrF2++" else 0, lowercase=self.lowercase)


def tokenizer_for(language: str | None, references: Sequence[str] = ()) -> TokenizerName:
    """Return BLEU's default tokenizer for a language such as "fr"; None if the language is unknown.

    13a, sacreBLEU's default, splits at spaces: in a language without spaces a whole sentence would be one word. There
    char needs no further package, unlike ja-mecab. If the language is not a code, the script of the references decides.
    """
    code = primary_code(code_of_name(language or "") or language)
    if code in CHINESE:
        return "zh"
    if code in WITHOUT_SPACES:
        return "char"
    if english_name(code) is None and (tokenizer := _tokenizer_of(references)) != "13a":
        named = f"{language} is not a language code" if language else "their language is unknown"
        log.warning(
            f"the references are in a script without spaces between words, but {named}: BLEU uses tokenizer "
            f"{tokenizer}; set data.tgt_lang, or give --tgt-lang"
        )
        return tokenizer
    return "13a"


def _tokenizer_of(references: Sequence[str]) -> TokenizerName:
    text = "".join(references[:_LOOKED_AT])
    n_unspaced = sum(STANDS_ALONE.match(letter) is not None for letter in text)
    if 2 * n_unspaced <= sum(map(str.isalpha, text)):
        return "13a"
    return "zh" if 2 * len(_CHINESE.findall(text)) > n_unspaced and not _KANA.search(text) else "char"


_LOOKED_AT = 500  # references
_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA = re.compile("[\u3041-\u30ff]")


def _check_model(tokenizer: TokenizerName) -> None:
    """Raise MtkitError if sacreBLEU would have to download the tokenizer's model first."""
    if not tokenizer.startswith("flores"):
        return
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    address = SPM_MODELS[tokenizer]["url"]
    path = Path(SACREBLEU_DIR) / "models" / address.rpartition("/")[2]
    if not path.exists():
        raise MtkitError(
            f"tokenizer {tokenizer}: {path}: no such file, and mtkit downloads nothing; run the `sacrebleu` command "
            f"once with `--tokenize {tokenizer}` to fetch it, or put a copy of {address} there"
        )
