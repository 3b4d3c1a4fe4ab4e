"""A system's diagnostics, counted by hand."""

import shutil

import pytest

from mtkit.alignment.checks import Checks
from mtkit.bundle import add_to_bundle
from mtkit.errors import BundleError
from mtkit.evaluation.comparison.comparison import diagnose, faults_of, untranslated_share
from mtkit.evaluation.comparison.systems import System, UnknownPieces, find_places, translate_system
from mtkit.evaluation.metrics.buckets import CountedSentences
from mtkit.evaluation.task import Measures, TextOptions, prepare
from mtkit.tokens.special_ids import UNK_ID
from mtkit.translation.confidence import CONFIDENCE_FILE, calibrate
from mtkit.translation.translator import Translator

SOURCES = ["The cat sleeps.", "It costs 35 euros.", "Tom sees the big house over there.", "Rain."]
REFERENCES = ["Le chat dort.", "Cela coûte 35 euros.", "Tom voit la grande maison là-bas.", "La pluie."]


def diagnostics(texts: list[str], **known):
    system = System("any", texts, **known)
    counted = CountedSentences(texts, [REFERENCES])
    return diagnose(system, SOURCES, [REFERENCES], counted, faults_of(system, SOURCES, Checks("fr")))


def test_faults_are_counted_by_sentence():
    texts = ["", "Cela coûte des euros.", "the big house over there the big house", "La la la la la la la la."]
    faults = {"empty": 1, "number": 1, "copy": 1, "loop": 1, "length": 0, "omission": 0, "url": 0}
    assert diagnostics(texts).faults == faults
    assert not any(diagnostics(REFERENCES).faults.values())


def test_a_sentence_that_loses_two_numbers_counts_once():
    sources, texts = ["From 35 to 77 euros."], ["De l'un à l'autre, en euros."]
    counted = CountedSentences(texts, [["De 35 à 77 euros."]])
    faults = faults_of(System("any", texts), sources, Checks("fr"))
    assert [fault.detail for fault in faults[0]] == ["35", "77"]
    found = diagnose(System("any", texts), sources, [["De 35 à 77 euros."]], counted, faults)
    assert found.faults["number"] == 1


def test_the_lexicon_of_one_model_checks_all_systems(shared_bundle, bundle, tmp_path):
    (tmp_path / "en").write_text("A cat.\n")
    for name in ("fr", "hyp"):
        (tmp_path / name).write_text("Un chat.\n")
    add_to_bundle(bundle, "alignment.npz", lambda path: path.write_bytes(b"not looked at yet"))
    places, _ = find_places([str(tmp_path / "hyp"), str(shared_bundle), str(bundle)], [])
    text = TextOptions(src=tmp_path / "en", refs=[tmp_path / "fr"], train_text=[tmp_path / "en"])
    kinds = prepare(places, text, Measures(["BLEU"])).kinds
    assert kinds is not None
    with pytest.raises(BundleError, match=rf"{bundle}.*alignment\.npz"):
        faults_of(System("hyp", ["Un chat, un chien."]), ["A cat, and three brown dogs too."], kinds.checks)


def test_a_translation_that_the_limit_ended_has_an_unlikely_length():
    assert diagnostics(REFERENCES, finished=[True, False, True, True]).faults["length"] == 1


def test_untranslated_words_are_lower_case_source_words_that_no_reference_has():
    texts = ["Le cat dort.", "Cela costs 35 euros.", "Tom voit la grande maison there.", "Rain."]
    # cat, costs, there; not Tom and Rain (capitals), euros and 35 (in the reference): 3 of 3 + 4 + 6 + 1 words
    assert untranslated_share(texts, SOURCES, [REFERENCES]) == 3 / 14
    with_another = [REFERENCES, ["Le cat.", "", "", ""]]
    assert untranslated_share(texts, SOURCES, with_another) == 2 / 14
    assert untranslated_share(["", ""], SOURCES[:2], [REFERENCES[:2]]) == 0


def test_calibration_is_measured_on_the_sentences_that_have_a_confidence():
    texts = [REFERENCES[0], REFERENCES[1], "Rien du tout.", "x"]  # two perfect, two bad
    known = {"confidences": [0.95, 0.75, 0.15, None], "good_chrf": 60.0}
    found = diagnostics(texts, **known).calibration
    assert found.n == 3
    assert found.good == pytest.approx(2 / 3)
    # each alone in its bin: distances of 1 - 0.95, 1 - 0.75 and 0.15 - 0
    assert found.calibration_error == pytest.approx((0.05 + 0.25 + 0.15) / 3)
    assert diagnostics(texts).calibration is None
    assert diagnostics(texts, confidences=[None] * 4, good_chrf=60.0).calibration is None


def test_a_models_translations_come_with_their_unknown_pieces(bundle_of_a_run):
    translator = Translator.load(bundle_of_a_run)
    sources = ["one red cat", "two q cats", ""]
    system = translate_system("tiny", [bundle_of_a_run], translator, sources)
    assert system.texts == translator.translate(sources)
    assert (system.confidences, system.good_chrf) == (None, None)
    ids = [translator.src_tokenizer.encode(source) for source in sources]
    unknown = {UNK_ID, *translator.src_tokenizer.byte_ids()}
    n_unknown = sum(token in unknown for line in ids for token in line)
    assert system.unknown_src == UnknownPieces(sum(map(len, ids)), n_unknown)
    assert 0 < system.unknown_src.share < 1  # the tokenizer has never seen q
    assert UnknownPieces(0, 0).share == 0


def test_a_calibrated_model_gives_its_confidences(bundle_of_a_run, tmp_path):
    folder = shutil.copytree(bundle_of_a_run, tmp_path / "calibrated")
    made = calibrate([-2 + 0.05 * n for n in range(40)], [3.0 * n for n in range(40)], threshold=55, decode={})
    add_to_bundle(folder, CONFIDENCE_FILE, made.dump)
    translator = Translator.load(folder)
    system = translate_system("tiny", [bundle_of_a_run], translator, ["one red cat", ""])
    [candidate] = translator.search(["one red cat"])[0][:1]
    assert system.confidences == [made.confidence(candidate.log_prob, len(candidate.ids) + 1), None]
    assert system.good_chrf == 55
