"""Metrics with other settings against sacreBLEU's, and tokenizers that are not there."""

import random
import shutil
from pathlib import Path

import pytest
import sacrebleu
import sentencepiece
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab, tokenizer_spm

from mtkit.errors import MtkitError
from mtkit.evaluation.metrics.scores import evaluate
from mtkit.evaluation.metrics.settings import METRICS, MetricSettings, tokenizer_for

REFERENCES = [
    ["The Cat sleeps, it's 30.5 km away!", "我们在桌子下面吃饭。", "“Straße”–Café №5", "the end ."],
    ["A Cat is sleeping 30.5 km away!", "我們在桌下吃飯。", "“Street”–Café №5", "that's the end ."],
]
HYPOTHESES = ["The cat sleeps, it is 30.5 km away!", "我们在桌子上吃饭。", "“Straße” – café №5", "The end ."]


def scores(settings: MetricSettings, *references: list[str]) -> list[tuple[str, float, str]]:
    found = evaluate(HYPOTHESES, *references, settings=settings, n_bootstrap=2, seed=1)
    return [(score.name, score.score, score.signature) for score in found]


def expected(bleu: BLEU, references: list[list[str]], lowercase: bool) -> list[tuple[str, float, str]]:
    found = []
    for metric in (bleu, CHRF(lowercase=lowercase), CHRF(word_order=2, lowercase=lowercase), TER()):
        score = metric.corpus_score(HYPOTHESES, references)
        metric.n_bootstrap, metric.seed = 2, 1
        found.append((score.name, score.score, str(metric.get_signature())))
    return found


@pytest.mark.parametrize("n_references", [1, 2])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char", "zh"])
def test_settings_are_sacrebleus(tokenize, lowercase, n_references):
    references = REFERENCES[:n_references]
    theirs = expected(BLEU(tokenize=tokenize, lowercase=lowercase), references, lowercase)
    assert scores(MetricSettings(tokenize, lowercase), *references) == theirs


def test_the_settings_tried_differ():
    all_scores = {
        (tokenize, lowercase): scores(MetricSettings(tokenize, lowercase), REFERENCES[0])[0][1]
        for tokenize in ("13a", "none", "intl", "char", "zh")
        for lowercase in (False, True)
    }
    assert len(set(all_scores.values())) == 10


def test_metrics_are_scored_in_the_order_asked_for():
    found = evaluate(HYPOTHESES, REFERENCES[0], metrics=["TER", "chrF2++"], n_bootstrap=2)
    assert [score.name for score in found] == ["TER", "chrF2++"]
    assert METRICS == ("BLEU", "chrF2", "chrF2++", "TER")


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("zh", "zh"), ("ZH-Hant", "zh"), ("zho_Hans", "zh"), ("ja", "char"), ("th_TH", "char")]
    + [("Chinese", "zh"), ("Japanese", "char"), ("cmn", "zh"), ("German", "13a")]
    + [(spaced, "13a") for spaced in ("fr", "ko", "vi", "tgt", "", None)],
)
def test_languages_without_spaces_are_cut_into_characters(language, tokenizer):
    assert tokenizer_for(language) == tokenizer


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("这个房子很大, OK。", "zh"),
        ("この家は大きいです。", "char"),
        ("บ้านหลังนี้ใหญ่มาก", "char"),
        ("집이 아주 큽니다.", "13a"),
        ("The house is called 大.", "13a"),
        ("", "13a"),
    ],
)
@pytest.mark.parametrize("language", ["tgt", "txt", "Klingon", None])
def test_the_script_of_the_references_decides_if_no_code_does(language, text, tokenizer, log_text):
    assert tokenizer_for(language, [text] * 3) == tokenizer
    facts = ("data.tgt_lang", "--tgt-lang", f"tokenizer {tokenizer}", language or "unknown")
    text = log_text()
    assert all(fact in text for fact in facts) == (tokenizer != "13a")


def test_a_code_decides_whatever_the_references_are():
    assert tokenizer_for("en", ["这个房子很大。"]) == "13a"


@pytest.mark.parametrize(("language", "module"), [("ja", tokenizer_ja_mecab), ("ko", tokenizer_ko_mecab)])
def test_a_tokenizer_that_is_not_installed_is_named_with_the_remedy(language, module, monkeypatch):
    monkeypatch.setattr(module, "MeCab", None)
    with pytest.raises(MtkitError) as caught:
        MetricSettings(f"{language}-mecab").load("BLEU")  # type: ignore[arg-type]
    assert str(caught.value).endswith(f"pip install 'sacrebleu[{language}]'")
    assert f"tokenizer {language}-mecab" in str(caught.value)


@pytest.fixture
def sacrebleu_folder(tmp_path: Path, monkeypatch) -> Path:
    for module in (sacrebleu.utils, tokenizer_spm):
        monkeypatch.setattr(module, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "download_file", lambda *_: pytest.fail("something is downloaded"))
    return tmp_path


def test_a_tokenizer_model_is_not_downloaded(sacrebleu_folder):
    with pytest.raises(
        MtkitError, match=r"tokenizer flores200: .*/models/flores200sacrebleuspm: no such file"
    ) as caught:
        MetricSettings("flores200").load("BLEU")
    assert str(sacrebleu_folder) in str(caught.value)
    MetricSettings("flores200").load("TER")  # which has no such tokenizer


def test_a_tokenizer_model_that_is_there_is_used(sacrebleu_folder, tmp_path):
    rng = random.Random(0)
    text = tmp_path / "text"
    text.write_text("".join(" ".join(rng.choices(HYPOTHESES[0].split(), k=5)) + "\n" for _ in range(200)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "m"), vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    (sacrebleu_folder / "models").mkdir()
    shutil.copy(tmp_path / "m.model", sacrebleu_folder / "models/flores200sacrebleuspm")
    theirs = expected(BLEU(tokenize="flores200"), REFERENCES[:1], False)
    assert scores(MetricSettings("flores200"), REFERENCES[0]) == theirs
    assert "tok:flores200" in theirs[0][2]
