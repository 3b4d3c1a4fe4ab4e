"""What a notebook shows of a translation."""

from mtkit.quality.faults import Fault
from mtkit.translation.candidates import Candidate, Translation


def test_a_candidate_shows_its_text_and_scores_but_not_its_ids():
    shown = repr(Candidate("Bonjour.", [5, 6, 7], -0.5, -0.25, True))
    assert "'Bonjour.'" in shown and "-0.25" in shown and "[5, 6, 7]" not in shown


def test_a_translation_shows_both_texts_and_only_what_is_unusual():
    good, cut = Candidate("Bonjour.", [5], -0.5, -0.25, True), Candidate("Bon", [5], -0.5, -0.5, False)
    assert repr(Translation("Hello.", [good])) == "Translation('Hello.' -> 'Bonjour.', score=-0.25)"
    unusual = repr(Translation("Hello.", [cut, good], (Fault("length", "unfinished"),)))
    assert "n_best=2, finished=False, faults=['length']" in unusual
