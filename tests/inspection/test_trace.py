"""What is recorded of every head: against torch's own attention, and the laws that hold for every shape of model."""

import math
from typing import Any

import pytest
import torch
from tiny_models import SENTENCES, SHAPES, tiny_bundle, tiny_config, tiny_tokenizer
from torch import Tensor, nn

from mtkit.errors import MtkitError, UsageError
from mtkit.inspection import trace as tracing
from mtkit.inspection.sentence_pair import Subject, check_drawable
from mtkit.inspection.trace import AttentionTrace, trace_attention, trace_pair
from mtkit.model.ops import split_heads

SRC, TGT = SENTENCES[0], SENTENCES[1]


@pytest.fixture(scope="module")
def subjects(folder) -> dict[str, Subject]:
    """A model of each shape."""
    spm = tiny_tokenizer(folder, tiny_config({}))
    return {
        name: Subject(tiny_bundle(folder / str(number), spm, tiny_config(model)))
        for number, (name, model) in enumerate(SHAPES.items())
    }


def traced(subject: Subject, src: str = SRC, tgt: str = TGT) -> AttentionTrace:
    return trace_pair(subject.model, subject.pair(src, target=tgt))


def inputs_and_outputs(subject: Subject, trace: AttentionTrace) -> dict[tuple[str, int], tuple[Any, tuple, Tensor]]:
    """Each attention with what it is given and what it returns, in a forward pass of its own."""
    model, found, hooks = subject.model, {}, []
    named: list[tuple[str, int, nn.Module]] = []
    named += [("encoder", n, layer.self_attention) for n, layer in enumerate(model.encoder_layers, 1)]
    named += [("decoder", n, layer.self_attention) for n, layer in enumerate(model.decoder_layers, 1)]
    named += [("cross", n, layer.cross_attention) for n, layer in enumerate(model.decoder_layers, 1)]
    for kind, number, module in named:

        def note(module, inputs, output, key=(kind, number)):
            found[key] = module, inputs, output

        hooks.append(module.register_forward_hook(note))
    with torch.no_grad():
        model(torch.tensor([trace.pair.src.ids]), torch.tensor([trace.pair.tgt_in]))
        memory, _ = model.encode(torch.tensor([trace.pair.src.ids]))
    for hook in hooks:
        hook.remove()
    return {key: (module, (*inputs, memory), output) for key, (module, inputs, output) in found.items()}


@pytest.mark.parametrize("name", ["plain", "post-norm, learned positions"])
def test_weights_are_those_of_torchs_attention(subjects, name):
    trace = traced(subjects[name])
    passed = inputs_and_outputs(subjects[name], trace)
    assert len(trace.maps) == 6
    for found in trace.maps:
        module, (x, *_, memory), _ = passed[found.kind, found.layer]
        twin = nn.MultiheadAttention(x.size(2), module.n_heads, batch_first=True).eval()
        packed = [module.q_proj, module.kv_proj] if found.kind == "cross" else [module.qkv_proj]
        twin.in_proj_weight.data = torch.cat([linear.weight for linear in packed])
        twin.in_proj_bias.data = torch.cat([linear.bias for linear in packed])
        looked_at = memory if found.kind == "cross" else x
        later = torch.ones(x.size(1), x.size(1)).triu(1).bool() if found.kind == "decoder" else None
        with torch.no_grad():
            _, weights = twin(x, looked_at, looked_at, attn_mask=later, need_weights=True, average_attn_weights=False)
        torch.testing.assert_close(found.weights, weights[0])


@pytest.mark.parametrize("name", SHAPES)
def test_the_weights_lead_to_what_the_model_computes(subjects, name):
    """So they do with rotary positions, too, which torch's attention does not have."""
    trace = traced(subjects[name])
    passed = inputs_and_outputs(subjects[name], trace)
    for found in trace.maps:
        module, (x, *_, memory), output = passed[found.kind, found.layer]
        with torch.no_grad():
            values = module.kv_proj(memory) if found.kind == "cross" else module.qkv_proj(x)
            values = values[0, :, -x.size(2) :].unflatten(1, (module.n_heads, -1)).transpose(0, 1)  # (H, K, d_head)
            mixed = torch.einsum("hqk,hkd->qhd", found.weights, values)
            if getattr(module, "relative", None) is not None:  # Shaw et al. 2018, equation 3
                distances = [[max(-3, min(3, j - i)) for j in range(x.size(1))] for i in range(x.size(1))]
                rows = torch.tensor(distances).add(3).clamp(max=len(module.relative.values) - 1)  # others are hidden
                mixed += torch.einsum("hqk,qkd->qhd", found.weights, module.relative.values[rows])
            mixed = mixed.flatten(1)
            torch.testing.assert_close(module.out_proj(mixed), output[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_queries_keys_and_what_is_hidden_make_the_weights(subjects, name):
    for found in traced(subjects[name]).maps:
        n_queries, n_keys = found.weights.shape[1:]
        dots = torch.einsum("hqd,hkd->hqk", found.q, found.k) / found.q.size(2) ** 0.5
        assert (found.added is not None) == (
            name in ("relative positions", "ALiBi, three heads") and found.kind != "cross"
        )
        if found.added is not None:
            dots = dots + found.added
        torch.testing.assert_close(found.scores, dots)
        torch.testing.assert_close(found.weights, dots.masked_fill(found.hidden, -math.inf).softmax(-1))
        later = torch.ones(n_queries, n_keys).triu(1).bool() & (found.kind == "decoder")
        assert torch.equal(found.hidden, later)
        assert not found.weights[:, later].any()


def test_rotary_positions_rotate_queries_and_keys(subjects):
    model, src = subjects["rotary, RMSNorm, SwiGLU, all tied"].model, [5, 6, 5]
    found = trace_attention(model, src, [2])[0]
    layer = model.encoder_layers[0]
    with torch.no_grad():
        x = model.src_embedding(torch.tensor(src)) * model.cfg.d_model**0.5
        packed = layer.self_attention.qkv_proj(layer.self_attention_residual.norm(x))
    for rotated, unrotated in zip((found.q, found.k), packed.unflatten(1, (3, 2, -1)).unbind(1), strict=False):
        torch.testing.assert_close(rotated[:, 0], unrotated[0])  # position 0 rotates by no angle
        torch.testing.assert_close(rotated[:, 2].norm(dim=1), unrotated[2].norm(dim=1))  # a rotation keeps lengths
        assert not torch.allclose(rotated[:, 2], unrotated[2], atol=0.1)


def test_the_axes_name_the_tokens_as_the_model_is_given_them(folder):
    cfg = tiny_config({}, tag="<2fr>")
    (folder / "tags").mkdir()
    subject = Subject(tiny_bundle(folder / "tagged", tiny_tokenizer(folder / "tags", cfg), cfg))
    trace = traced(subject, "the cat", "It rains")
    src = ["<2fr>", *subject.src_tokenizer.pieces(subject.src_tokenizer.encode("the cat"))[1:], "<end>"]
    tgt = subject.tgt_tokenizer.pieces(subject.tgt_tokenizer.encode("It rains"))
    assert trace.axes("encoder") == (src, src)
    assert trace.axes("decoder") == (["<start>", *tgt], ["<start>", *tgt])
    assert trace.axes("cross") == (["<start>", *tgt], src)
    assert trace.pair.tgt.pieces == [*tgt, "<end>"]
    for found in trace.maps:
        queries, keys = trace.axes(found.kind)
        assert found.weights.shape == (2, len(queries), len(keys))


def test_a_recurrent_decoder_has_no_self_attention(subjects):
    trace = traced(subjects["SSRU, nothing tied"])
    assert [(found.kind, found.layer) for found in trace.maps] == [
        ("encoder", 1),
        ("encoder", 2),
        ("cross", 1),
        ("cross", 2),
    ]
    with pytest.raises(UsageError, match=r"no decoder self-attention.*model\.decoder=ssru"):
        trace.chosen(["decoder"])


def test_kinds_layers_and_heads_can_be_chosen(subjects):
    trace = traced(subjects["plain"])
    [found] = trace.chosen(["cross"], layer=2, head=1).maps
    assert (found.kind, found.layer, found.heads) == ("cross", 2, (1,))
    assert torch.equal(found.weights, trace.layers("cross")[1].weights[:1])
    assert torch.equal(found.q, trace.layers("cross")[1].q[:1]) and torch.equal(found.k, trace.layers("cross")[1].k[:1])
    assert len(trace.chosen(layer=1).maps) == 3
    with pytest.raises(UsageError, match="layer 3: the model has layers 1 to 2"):
        trace.chosen(layer=3)
    with pytest.raises(UsageError, match="heads 1 to 2"):
        trace.chosen(head=3)


def test_the_model_is_left_as_it_was(subjects):
    subject = subjects["plain"]
    pair = subject.pair(SRC, target=TGT)
    subject.model.train()
    try:
        trace_pair(subject.model, pair)
        assert subject.model.training
    finally:
        subject.model.eval()
    assert not any(module._forward_hooks for module in subject.model.modules())


def test_a_trace_that_differs_from_the_model_is_refused(subjects, monkeypatch):
    monkeypatch.setattr(tracing, "split_heads", lambda *args: tuple(reversed(split_heads(*args))))
    with pytest.raises(RuntimeError, match="encoder self-attention of layer 1"):
        traced(subjects["plain"])
    assert not any(module._forward_hooks for module in subjects["plain"].model.modules())


def test_a_side_that_is_too_long_to_draw_is_refused_with_its_length(subjects):
    check_drawable(subjects["plain"].pair("a" * 78, target=TGT))  # and a space before it, and <end>
    with pytest.raises(MtkitError, match=r"the source has 81 tokens.* 80 .*--json"):
        check_drawable(subjects["plain"].pair("a" * 79, target=TGT))
    with pytest.raises(MtkitError, match=r"the target has 81 tokens.* 80 .*--json"):
        check_drawable(subjects["plain"].pair(SRC, target="a" * 79))
