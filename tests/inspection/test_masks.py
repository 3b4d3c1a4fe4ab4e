"""Masks as they are shown, and the proof that padding changes nothing, which a broken mask must fail."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch
from browsing import check_page
from typer.testing import CliRunner

from mtkit.bundle import load_bundle
from mtkit.cli import app
from mtkit.errors import MtkitError
from mtkit.inspection.masks import Difference, as_text, masks_of, padded_batch, write_masks_page, write_picture
from mtkit.inspection.sentence_pair import Subject
from mtkit.model.masks import BLOCKED
from mtkit.model.transformer import Transformer

SENTENCES = ["cat sees one dog", "red cat", "dog"]
TARGETS = ["chat voit chien", "un chat", "chien rouge bleu voit"]
CHOICES = [
    {},
    {"norm_position": "post", "norm": "rmsnorm"},
    {"decoder": "ssru", "positions": "learned"},
    {"positions": "rotary", "activation": "swiglu", "n_encoder_layers": 2, "n_decoder_layers": 2},
]


def subject_with(folder, **choices) -> Subject:
    """The run's tokenizers around a random model."""
    bundle = load_bundle(folder)
    cfg = bundle.config.model.model_copy(update=choices)
    torch.manual_seed(1)
    model = Transformer(cfg, bundle.src_tokenizer.vocab_size, bundle.tgt_tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # so that what is looked at matters
    return Subject(replace(bundle, model=model, config=bundle.config.model_copy(update={"model": cfg})))


@pytest.fixture(scope="module")
def subject(bundle_of_a_run):
    return subject_with(bundle_of_a_run)


def batch_of(subject, sentences=SENTENCES, targets=TARGETS, **options):
    return padded_batch(
        subject, [subject.pair(s, target=t) for s, t in zip(sentences, targets, strict=True)], **options
    )


def looking_everywhere(pad_mask):
    return torch.zeros(pad_mask.shape)[:, None, None, :]


def looking_at_the_first_pad(pad_mask):
    bias = looking_everywhere(pad_mask)
    return bias.masked_fill_((pad_mask & pad_mask.roll(1, dims=1))[:, None, None, :], BLOCKED)


def looking_at_all_but_the_last_token(pad_mask):
    bias = looking_everywhere(pad_mask)
    return bias.masked_fill_((pad_mask | pad_mask.roll(-1, dims=1))[:, None, None, :], BLOCKED)


@pytest.mark.parametrize("choices", CHOICES)
def test_padding_changes_nothing_in_any_kind_of_model_and_would_without_its_mask(bundle_of_a_run, choices):
    batch = batch_of(subject_with(bundle_of_a_run, **choices), tolerance=1e-4)
    assert batch.holds and batch.padded
    first, second, third = batch.sentences
    assert max(first.unmasked.encoder, first.unmasked.logits) < 1e-4  # the longest source has no padding
    assert min(second.unmasked.encoder, second.unmasked.logits, third.unmasked.encoder, third.unmasked.logits) > 1e-2


@pytest.mark.parametrize("broken", [looking_everywhere, looking_at_the_first_pad, looking_at_all_but_the_last_token])
def test_a_broken_padding_mask_fails_the_proof(subject, monkeypatch, broken):
    monkeypatch.setattr("mtkit.model.network.padding_bias", broken)
    batch = batch_of(subject)
    assert not batch.holds
    assert "BROKEN  padding changes" in as_text(batch)


def test_without_a_causal_mask_padding_of_the_target_is_seen(subject, monkeypatch):
    monkeypatch.setattr(
        "mtkit.model.transformer.causal_bias", lambda length, device=None: torch.zeros(1, 1, length, length)
    )
    batch = batch_of(subject)
    assert not batch.holds
    assert [row.masked.encoder < 1e-5 for row in batch.sentences] == [True] * 3  # the encoder has no part in it


def test_unmasked_differences_are_those_of_a_model_without_the_mask(subject, monkeypatch):
    said = [row.unmasked for row in batch_of(subject).sentences]
    monkeypatch.setattr("mtkit.model.network.padding_bias", looking_everywhere)
    found = [row.masked for row in batch_of(subject).sentences]
    assert [(d.encoder, d.logits, d.changed) for d in said] == [
        (pytest.approx(d.encoder), pytest.approx(d.logits), d.changed) for d in found
    ]
    assert subject.model.pad_id == 0  # the contrast leaves the model as it was


def test_the_differences_are_those_of_tensors_computed_side_by_side(subject, monkeypatch):
    monkeypatch.setattr("mtkit.model.network.padding_bias", looking_everywhere)
    row = batch_of(subject).sentences[2]
    src, tgt_in = torch.tensor([row.pair.src.ids]), torch.tensor([row.pair.tgt_in])
    padded = torch.nn.functional.pad(src, (0, len(row.src) - src.size(1)))  # as the batch has it; the target is longest
    with torch.no_grad():
        memory = (subject.model.encode(src)[0] - subject.model.encode(padded)[0][:, : src.size(1)]).abs().max()
        alone, together = subject.model(src, tgt_in)[0], subject.model(padded, tgt_in)[0]
    changed = sum(int(a.argmax()) != int(b.argmax()) for a, b in zip(alone, together, strict=True))
    assert row.masked.encoder == pytest.approx(float(memory), rel=1e-4)
    assert row.masked.logits == pytest.approx(float((alone - together).abs().max()), rel=1e-4)
    assert row.masked.changed == changed


def test_nan_fails_the_proof(subject):
    assert not Difference(math.nan, 0.0, 0).within(1.0) and not Difference(0.0, math.nan, 0).within(1.0)
    batch = batch_of(subject)
    row = replace(batch.sentences[0], masked=Difference(0.0, math.nan, 0))
    broken = replace(batch, sentences=[row, *batch.sentences[1:]])
    assert not broken.holds and "largest difference nan" in as_text(broken)


def test_tokens_that_a_model_must_never_say_do_not_count(bundle_of_a_run):
    forbidding = subject_with(bundle_of_a_run)
    forbidding.model.output.weight.data.mul_(10.0)
    forbidding.model.output.bias.data[4:] = -30_000.0  # as imported models have it: float32 has steps of 0.002 there
    forbidding.model.output.bias.data[-20:] = 0.0
    assert batch_of(forbidding).holds


def test_masks_show_which_token_may_look_at_which(subject):
    batch = batch_of(subject, ["cat", "one red cat"], ["un chat rouge", "chat"])
    encoder, causal, cross = masks_of(batch, batch.sentences[0])
    assert list(encoder.keys) == ["▁cat", "<end>", "<pad>", "<pad>"] == list(encoder.queries)
    assert ["".join(row) for row in encoder.cells] == ["■■··", "■■··", "××××", "××××"]
    assert list(causal.keys) == ["<start>", "▁un", "▁chat", "▁rouge"]
    assert ["".join(row) for row in causal.cells] == ["■···", "■■··", "■■■·", "■■■■"]
    assert ["".join(row) for row in cross.cells] == ["■■··"] * 4
    encoder, causal, cross = masks_of(batch, batch.sentences[1])
    assert ["".join(row) for row in encoder.cells] == ["■■■■"] * 4
    assert list(causal.keys) == ["<start>", "▁chat", "<pad>", "<pad>"]
    assert ["".join(row) for row in causal.cells] == ["■···", "■■··", "××××", "××××"]
    assert ["".join(row) for row in cross.cells] == ["■■■■", "■■■■", "××××", "××××"]


def test_the_text_has_masks_and_proof(subject):
    lines = as_text(batch_of(subject, ["cat", "one red cat"], ["un chat rouge", "chat"])).splitlines()
    assert lines[0] == "2 sentences, padded to 4 source and 4 target tokens"
    assert lines[4:8] == [
        "   1  ▁cat <end> <pad> <pad>",
        "      ■    ■     ·     ·",
        "   2  ▁one ▁red  ▁cat  <end>",
        "      ■    ■     ■     ■",
    ]
    start = lines.index("sentence 1, decoder self-attention: causal")
    assert lines[start + 1 : start + 4] == [
        "                0  1  2  3",
        "    0  <start>  ■  ·  ·  ·",
        "    1  ▁un      ■  ■  ·  ·",
    ]
    start = lines.index("sentence 2, decoder self-attention: causal")
    assert lines[start + 3 : start + 7] == [
        "    1  ▁chat    ■  ■  ·  ·",
        "    2  <pad>    ×  ×  ×  ×",
        "       and 1 more of <pad>",
        "",
    ]
    assert lines[-1].startswith("holds   padding changes nothing: ")


def test_a_target_too_wide_for_a_terminal_is_left_to_files(subject):
    text = as_text(batch_of(subject, ["cat", "dog"], ["un " * 70, "un"]))
    assert any("71 tokens" in line and "--output" in line for line in text.splitlines())


def test_a_long_source_is_drawn_in_several_blocks(subject):
    lines = as_text(batch_of(subject, ["cat " * 30, "dog"], ["un", "un"])).splitlines()
    assert max(map(len, lines)) <= 110
    [start] = [index for index, line in enumerate(lines) if line.startswith("padding mask of the source")]
    assert lines[start + 6] == "from token 17:"  # 4 + 16 * 5 letters and 16 spaces fill a line
    shown = [line for line in lines[start : start + 11] if line.startswith("   1")]
    assert " ".join(line[4:].strip() for line in shown).split() == ["▁cat"] * 30 + ["<end>"]


def test_a_recurrent_decoder_needs_no_mask(bundle_of_a_run):
    batch = batch_of(subject_with(bundle_of_a_run, decoder="ssru"))
    assert "recurrent" in masks_of(batch, batch.sentences[0])[1].name


def test_pictures_are_written_and_too_large_ones_refused(subject, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need the extra plot")
    batch = batch_of(subject)
    write_picture(tmp_path / "masks.svg", batch)
    text = list(ElementTree.parse(tmp_path / "masks.svg").getroot().itertext())
    assert text.count("_sees") == 3 and "cross-attention: padding" in text  # twice in the encoder's, once in cross
    with pytest.raises(MtkitError, match=r"large\.png: .* pixels; give fewer"):
        write_picture(tmp_path / "large.png", replace(batch, sentences=[*batch.sentences] * 70))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["masks.svg"]


def test_the_page_reads_well_and_is_small(subject, browser, tmp_path):
    path = tmp_path / "masks.html"
    write_masks_page(path, batch_of(subject, ["cat <b>", "one red cat sees one blue dog"], ["un chat & voit", "chat"]))
    check_page(browser, path, tmp_path)
    assert path.stat().st_size < 100_000
    large = batch_of(subject, ["cat " * 180, "dog"], ["un", "un"])
    with pytest.raises(MtkitError, match=r"x\.html: .* 66,254 cells.* 60,000 .*give fewer"):
        write_masks_page(tmp_path / "x.html", large)
    assert "<h3>1. cat &lt;b&gt; &rarr; un chat &amp; voit</h3>" in path.read_text(encoding="utf-8")


def run(model, *args: object):
    return CliRunner().invoke(app, ["inspect", "masks", "--model", str(model), *map(str, args)])


def test_the_command_proves_it_of_a_trained_model_and_its_own_translations(bundle_of_a_run):
    done = run(bundle_of_a_run, *SENTENCES)
    assert done.exit_code == 0, done.output
    assert "holds   padding changes nothing" in done.stdout and "×" in done.stdout


def test_json_has_the_masks_and_the_proof(bundle_of_a_run, tmp_path):
    args = [*SENTENCES[:2], "--target", TARGETS[0], "--target", TARGETS[1]]
    done = run(bundle_of_a_run, *args, "--json", "-o", tmp_path / "m.html")
    record = json.loads(done.stdout)
    assert record["holds"] is True and record["tolerance"] == 1e-3
    assert record["causal_mask"] == [[key <= query for key in range(4)] for query in range(4)]
    first, second = record["sentences"]
    assert second["padded_target_input"] == ["<start>", "▁un", "▁chat", "<pad>"]
    assert first["source_mask"] == [True] * 5 and second["source_mask"] == [True] * 3 + [False] * 2
    assert first["target"]["text"] == TARGETS[0]
    assert set(first["with_mask"]) == set(first["without_mask"]) == {"encoder", "logits", "changed"}
    assert (tmp_path / "m.html").stat().st_size > 1000


def test_a_broken_mask_ends_the_command_with_1(bundle_of_a_run, monkeypatch):
    monkeypatch.setattr("mtkit.model.network.padding_bias", looking_everywhere)
    done = run(bundle_of_a_run, *SENTENCES)
    assert done.exit_code == 1 and "BROKEN" in done.stdout


def test_sentences_of_one_length_give_a_warning(bundle_of_a_run):
    done = run(bundle_of_a_run, "cat", "dog", "--target", "un", "--target", "chat")
    assert done.exit_code == 0 and "warning: no sentence has padding" in done.stderr


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["cat", "dog", "--target", "chat"], 2, "2 sentences, but 1 times --target"),
        (["cat", "-o", "masks.txt"], 2, "--output masks.txt: the name must end in .png or .svg or .html"),
        (["cat", " "], 1, "the sentence is blank"),
        (["cat " * 3000], 1, "more than the"),
    ],
)
def test_bad_input_is_refused(bundle_of_a_run, args, exit_code, message):
    done = run(bundle_of_a_run, *args)
    assert done.exit_code == exit_code and message in done.stderr and "Traceback" not in done.stderr
