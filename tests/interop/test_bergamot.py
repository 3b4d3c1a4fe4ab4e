"""Bergamot's files, written here byte by byte and imported as bundles."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from numpy.typing import NDArray

from mtkit.bundle import load_bundle
from mtkit.engines.shortlist import shortlist_of
from mtkit.errors import MtkitError
from mtkit.interop.bergamot.folder import import_model
from mtkit.interop.marian_binary import read_marian_binary

FLOAT32, INT8, INT16, TEXT, INT8_AVX2 = 0x404, 0x4101, 0x4102, 0x101, 0x5101
WIDTH, FFN = 8, 12
OPTIONS = {
    "type": "transformer",
    "enc-depth": 1,
    "dec-depth": 1,
    "dim-emb": WIDTH,
    "transformer-dim-ffn": FFN,
    "transformer-heads": 2,
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
    "dec-cell-base-depth": 2,
    "tied-embeddings-all": True,
}
Item = tuple[int, Sequence[int], bytes]  # type, shape, data


def floats(values: NDArray[np.float32]) -> Item:
    return FLOAT32, values.shape, values.astype("<f4").tobytes()


def whole_numbers(values: NDArray[np.int8], multiplier: float, *, transposed: bool = True) -> Item:
    """A quantised matrix: transposed, followed by its multiplier, padded to a multiple of 256 bytes."""
    data = (values.T if transposed else values).tobytes() + struct.pack("<f", multiplier)
    return INT8, values.shape, data + bytes(-len(data) % 256)


def text(options: Mapping[str, object]) -> Item:
    data = yaml.safe_dump(dict(options)).encode() + b"\0\0"
    return TEXT, (len(data),), data


def write_binary(path: Path, items: Mapping[str, Item], version: int = 1) -> None:
    names = [name.encode() + b"\0" for name in items]
    data = struct.pack("<QQ", version, len(items))
    for name, (kind, shape, content) in zip(names, items.values(), strict=True):
        data += struct.pack("<QQQQ", len(name), kind, len(shape), len(content))
    data += b"".join(names)
    for _, shape, _ in items.values():
        data += struct.pack(f"<{len(shape)}i", *shape)
    gap = -(len(data) + 8) % 256
    data += struct.pack("<Q", gap) + bytes(gap)
    path.write_bytes(data + b"".join(content for _, _, content in items.values()))


def write_lexicon(
    path: Path, lists: Sequence[Sequence[int]], n_first: int = 2, magic: int = 0xF11A48D5013417F5
) -> None:
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    ids = np.array([token_id for ids in lists for token_id in ids], dtype="<u4")
    header = struct.pack("<6Q", magic, 0, n_first, 50, len(offsets), len(ids))
    path.write_bytes(header + offsets.tobytes() + ids.tobytes())


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Marian's kind: </s> 0, <unk> 1, no other special pieces."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.enpt.spm"
    lines = ["the cat sees a dog", "a dog sees the cat", "o gato viu um cachorro", "um cachorro viu o gato"] * 4
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=file,
            vocab_size=40,
            hard_vocab_limit=False,
            eos_id=0,
            unk_id=1,
            bos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    return path


@pytest.fixture
def weights(vocabulary: Path) -> dict[str, NDArray[np.float32]]:
    """Marian's parameters, (inputs, outputs): all are k / 64 with an integer k, which 8 bits hold exactly."""
    size = sentencepiece.SentencePieceProcessor(str(vocabulary)).get_piece_size()
    random = np.random.default_rng(3)
    shapes = {"Wemb": (size, WIDTH), "decoder_ff_logit_out_b": (1, size)}
    square, row = (WIDTH, WIDTH), (1, WIDTH)
    for prefix in ("encoder_l1_self", "decoder_l1_context"):
        shapes |= {f"{prefix}_W{part}": square for part in "qkvo"} | {f"{prefix}_b{part}": row for part in "qkvo"}
        shapes |= {f"{prefix}_Wo_ln_scale": row, f"{prefix}_Wo_ln_bias": row}
    shapes |= {"decoder_l1_rnn_W": square, "decoder_l1_rnn_Wf": square, "decoder_l1_rnn_bf": row}
    shapes |= {"decoder_l1_rnn_ffn_ln_scale": row, "decoder_l1_rnn_ffn_ln_bias": row}
    for side in ("encoder", "decoder"):
        shapes |= {f"{side}_l1_ffn_W1": (WIDTH, FFN), f"{side}_l1_ffn_b1": (1, FFN)}
        shapes |= {f"{side}_l1_ffn_W2": (FFN, WIDTH), f"{side}_l1_ffn_b2": row}
        shapes |= {f"{side}_l1_ffn_ffn_ln_scale": row, f"{side}_l1_ffn_ffn_ln_bias": row}
    return {
        name: random.integers(-127, 128, shape).astype(np.float32) / np.float32(64) for name, shape in shapes.items()
    }


@pytest.fixture
def folder(tmp_path: Path, vocabulary: Path, weights: dict[str, NDArray[np.float32]]) -> Path:
    """A complete model folder."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / vocabulary.name).write_bytes(vocabulary.read_bytes())
    write_binary(folder / "model.enpt.intgemm.alphas.bin", items_of(weights))
    write_lexicon(folder / "lex.50.50.enpt.s2t.bin", [[]] * 3 + [[7, 5]] + [[4]] * (len(weights["Wemb"]) - 4))
    (folder / "config.intgemm8bitalpha.yml").write_text("beam-size: 1\nmax-length-factor: 2.5\n", encoding="utf-8")
    return folder


def items_of(weights: Mapping[str, NDArray[np.float32]], options: Mapping[str, object] = OPTIONS) -> dict[str, Item]:
    items: dict[str, Item] = {}
    for name, values in weights.items():
        if "_W" in f"_{name}" and "_ln_" not in name:
            items[name] = whole_numbers((values * 64).astype(np.int8), 64.0, transposed=name != "Wemb")
            items[f"{name}_QuantMultA"] = floats(np.array([[12.5]], dtype=np.float32))
        else:
            items[name] = floats(values)
    return {**items, "special:model.yml": text(options)}


def test_matrices_are_dequantised_exactly(tmp_path: Path) -> None:
    matrix = np.array([[1, 2, 3], [-4, 5, -127]], dtype=np.int8)
    wide = np.array([[300, -20]], dtype="<i2")
    items = {
        "encoder_W": whole_numbers(matrix, 4.0),
        "Wemb": whole_numbers(matrix, 2.0, transposed=False),
        "wide_W": (INT16, (1, 2), wide.tobytes() + struct.pack("<f", 1000.0)),
        "b": floats(np.array([[0.5, 0.25]], dtype=np.float32)),
        "special:model.yml": text({"dim-emb": 3}),
    }
    write_binary(tmp_path / "model.bin", items)
    model = read_marian_binary(tmp_path / "model.bin")
    assert model.options == {"dim-emb": 3}
    assert model.tensors["encoder_W"].tolist() == [[0.25, 0.5, 0.75], [-1.0, 1.25, -31.75]]
    assert model.tensors["Wemb"].tolist() == [[0.5, 1.0, 1.5], [-2.0, 2.5, -63.5]]
    assert model.tensors["wide_W"][0] == pytest.approx([0.3, -0.02])
    assert model.tensors["b"].tolist() == [[0.5, 0.25]]


def test_the_bundle_has_the_models_weights_in_mtkits_order(
    folder: Path, weights: dict[str, NDArray[np.float32]], tmp_path: Path
) -> None:
    import_model(folder, tmp_path / "bundle")
    bundle = load_bundle(tmp_path / "bundle")
    state = {name: weight.numpy() for name, weight in bundle.model.state_dict().items()}
    table = weights["Wemb"]
    assert state["tgt_embedding.weight"][1].tolist() == table[1].tolist()  # <unk> was 1 and is
    assert state["tgt_embedding.weight"][3].tolist() == table[0].tolist()  # </s> was 0
    assert state["tgt_embedding.weight"][4:].tolist() == table[2:].tolist()
    assert not state["tgt_embedding.weight"][[0, 2]].any()  # there was neither padding nor a start
    bias = state["output.bias"]
    assert (bias[3], bias[4]) == (weights["decoder_ff_logit_out_b"][0, 0], weights["decoder_ff_logit_out_b"][0, 2])
    assert (bias[:3] <= -10_000).all()
    unit = state["decoder_layers.0.self_attention.in_proj.weight"]
    assert unit.tolist() == [*weights["decoder_l1_rnn_W"].T.tolist(), *weights["decoder_l1_rnn_Wf"].T.tolist()]
    ffn = state["encoder_layers.0.feed_forward.in_proj.weight"]
    assert ffn.tolist() == weights["encoder_l1_ffn_W1"].T.tolist()
    decode = bundle.config.decode
    # the engine stops at 2.5 x (n + 1) tokens, </s> counted, and mtkit at 2.5 x n + 2, </s> not counted
    assert (decode.beam_size, decode.max_len_factor, decode.max_len_constant, decode.shortlist) == (1, 2.5, 2, True)
    assert (bundle.config.data.src_lang, bundle.config.data.tgt_lang) == ("en", "pt")
    assert bundle.config.model.positions == "marian"


def test_a_step_computes_what_marian_computes(
    folder: Path, weights: dict[str, NDArray[np.float32]], tmp_path: Path
) -> None:
    """The oracle is the first step of the decoder with Marian's names; its input is a zero embedding at position 0."""
    import_model(folder, tmp_path / "bundle")
    model = load_bundle(tmp_path / "bundle").model
    w = {name: torch.from_numpy(values) for name, values in weights.items()}
    src = torch.tensor([[9, 12, 3]])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w[f"{name}_ln_scale"]
            + w[f"{name}_ln_bias"]
        )

    def positions(n: int) -> torch.Tensor:
        rates = torch.tensor([10000 ** (-i / (WIDTH / 2 - 1)) for i in range(WIDTH // 2)])
        angles = torch.arange(n)[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    def attention(x: torch.Tensor, memory: torch.Tensor, name: str) -> torch.Tensor:
        q, k, v = (
            y @ w[f"{name}_W{part}"] + w[f"{name}_b{part}"] for y, part in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        heads = []
        for start in range(0, WIDTH, WIDTH // 2):
            columns = slice(start, start + WIDTH // 2)
            shares = (q[:, columns] @ k[:, columns].T / (WIDTH // 2) ** 0.5).softmax(-1)
            heads.append(shares @ v[:, columns])
        mixed = torch.cat(heads, dim=1) @ w[f"{name}_Wo"] + w[f"{name}_bo"]
        return norm(x + mixed, f"{name}_Wo")

    def feed_forward(x: torch.Tensor, name: str) -> torch.Tensor:
        hidden = (x @ w[f"{name}_W1"] + w[f"{name}_b1"]).relu()
        return norm(x + hidden @ w[f"{name}_W2"] + w[f"{name}_b2"], f"{name}_ffn")

    memory = w["Wemb"][[9 - 2, 12 - 2, 0]] * WIDTH**0.5 + positions(3)
    memory = feed_forward(attention(memory, memory, "encoder_l1_self"), "encoder_l1_ffn")
    x = positions(1)
    forget = (x @ w["decoder_l1_rnn_Wf"] + w["decoder_l1_rnn_bf"]).sigmoid()
    x = norm(x + ((1 - forget) * (x @ w["decoder_l1_rnn_W"])).relu(), "decoder_l1_rnn_ffn")
    x = feed_forward(attention(x, memory, "decoder_l1_context"), "decoder_l1_ffn")
    expected = (x @ w["Wemb"].T + w["decoder_ff_logit_out_b"])[0]

    with torch.no_grad():
        logits = model.decode_step(torch.tensor([[2]]), model.start_decoding(src, 1))[0, 0]
    torch.testing.assert_close(logits[4:], expected[2:], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits[3], expected[0], atol=1e-4, rtol=1e-4)


def test_the_tokenizer_cuts_as_before_with_other_ids(folder: Path, vocabulary: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "bundle")
    tokenizer = load_bundle(tmp_path / "bundle").src_tokenizer
    before = sentencepiece.SentencePieceProcessor(str(vocabulary))
    for line in ("the dog sees um gato", "zebra the cat", "o cachorro viu"):
        assert tokenizer.encode(line) == [token_id + 2 if token_id > 1 else 1 for token_id in before.encode(line)]


def test_the_lexicon_becomes_the_shortlist(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "bundle")
    shortlist = shortlist_of(load_bundle(tmp_path / "bundle"))
    # by hand: the first two, </s> and <unk>, are special; token 3 is now 5, and its list 7, 5 is now 9, 7; with one
    # vocabulary for both sides, the engine adds the sentence's own tokens
    assert shortlist.ids_of([5]).tolist() == [0, 1, 2, 3, 5, 7, 9]
    assert shortlist.ids_of([4]).tolist() == [0, 1, 2, 3, 4]
    assert shortlist.ids_of([6, 5]).tolist() == [0, 1, 2, 3, 5, 6, 7, 9]


def test_without_a_lexicon_there_is_no_shortlist(folder: Path, tmp_path: Path) -> None:
    (folder / "lex.50.50.enpt.s2t.bin").unlink()
    import_model(folder / "model.enpt.intgemm.alphas.bin", tmp_path / "bundle")
    bundle = load_bundle(tmp_path / "bundle")
    assert not bundle.config.decode.shortlist
    with pytest.raises(MtkitError, match=r"shortlist\.npz.*decode\.shortlist=true.*mtkit shortlist"):
        shortlist_of(bundle)


@pytest.mark.parametrize("cut", [0, 10, 2000, 5000, -1])
def test_a_cut_off_file_is_refused(folder: Path, tmp_path: Path, cut: int) -> None:
    model = folder / "model.enpt.intgemm.alphas.bin"
    model.write_bytes(model.read_bytes()[:cut])
    with pytest.raises(MtkitError, match=r"\.bin: cut off: .*[\d,]+ bytes"):
        import_model(folder, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_other_files_are_refused(folder: Path, tmp_path: Path, weights: dict[str, NDArray[np.float32]]) -> None:
    model = folder / "model.enpt.intgemm.alphas.bin"
    write_binary(model, items_of(weights), version=2)
    with pytest.raises(MtkitError, match=r"version 2 .*1"):
        import_model(folder, tmp_path / "bundle")
    model.write_bytes(struct.pack("<QQ", 1, 10**12) + bytes(100))
    with pytest.raises(MtkitError, match=r"1,000,000,000,000 items, .*116 bytes"):
        import_model(folder, tmp_path / "bundle")
    header = struct.pack("<QQQQ", 0, FLOAT32, 2**61, 4)  # one item with 2^61 dimensions
    model.write_bytes(struct.pack("<QQ", 1, 1) + header + bytes(100))
    with pytest.raises(MtkitError, match=r"cut off: .*9,223,372,036,854,775,856 bytes"):
        import_model(folder, tmp_path / "bundle")
    items = items_of(weights)
    del items["special:model.yml"]
    write_binary(model, items)
    with pytest.raises(MtkitError, match=r"special:model\.yml"):
        import_model(folder, tmp_path / "bundle")


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(INT8_AVX2, "0x5101"), (0x402, "type float16"), (7, "0x0007")],
)
def test_an_unknown_type_is_named(
    folder: Path, tmp_path: Path, weights: dict[str, NDArray[np.float32]], kind: int, problem: str
) -> None:
    items = items_of(weights)
    _, shape, data = items["decoder_l1_rnn_W"]
    items["decoder_l1_rnn_W"] = kind, shape, data
    write_binary(folder / "model.enpt.intgemm.alphas.bin", items)
    with pytest.raises(MtkitError, match=f"decoder_l1_rnn_W: its .*{problem}"):
        import_model(folder, tmp_path / "bundle")


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"dec-cell": "gru"}, "dec-cell: gru"),
        ({"type": "s2s"}, "type: s2s"),
        ({"tied-embeddings-all": False, "tied-embeddings": True}, "tied-embeddings-all: False"),
    ],
)
def test_an_unsupported_architecture_is_named(
    folder: Path, tmp_path: Path, weights: dict[str, NDArray[np.float32]], option: dict[str, object], problem: str
) -> None:
    write_binary(folder / "model.enpt.intgemm.alphas.bin", items_of(weights, {**OPTIONS, **option}))
    with pytest.raises(MtkitError, match=problem):
        import_model(folder, tmp_path / "bundle")


@pytest.mark.parametrize(
    ("lists", "problem"),
    [
        ([[99]], "lex.*token 99"),
        ([[]] * 2, "lex.* 2 tokens"),
    ],
)
def test_a_lexicon_of_another_vocabulary_is_refused(
    folder: Path, tmp_path: Path, weights: dict[str, NDArray[np.float32]], lists: list[list[int]], problem: str
) -> None:
    size = len(weights["Wemb"])
    write_lexicon(folder / "lex.50.50.enpt.s2t.bin", lists if len(lists) == 2 else lists + [[]] * (size - 1))
    with pytest.raises(MtkitError, match=problem):
        import_model(folder, tmp_path / "bundle")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("- 1", "contains no settings"),
        ("beam-size: many", 'beam_size="many": must be a whole number'),
        ("max-length-factor: 0", r"max_len_factor=0\.0"),
        ("max-length-factor: .inf", "max-length-factor: inf"),
        ("since: 2024-99-99\nbeam-size: !!int x", ".*line 2: beam-size"),
        (f"a: &a {'x' * 2000}\nb: [{'*a, ' * 1000}]", ".*line 2: aliases repeat"),
    ],
)
def test_invalid_settings_are_named(folder: Path, tmp_path: Path, settings: str, problem: str) -> None:
    (folder / "config.intgemm8bitalpha.yml").write_text(settings, encoding="utf-8")
    with pytest.raises(MtkitError, match=rf"config\.intgemm8bitalpha\.yml: {problem}"):
        import_model(folder, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_a_damaged_lexicon_is_refused(folder: Path, tmp_path: Path) -> None:
    lexicon = folder / "lex.50.50.enpt.s2t.bin"
    whole = lexicon.read_bytes()
    lexicon.write_bytes(whole[:-4])
    with pytest.raises(MtkitError, match=r"lex\.50\.50\.enpt\.s2t\.bin: .*bytes"):
        import_model(folder, tmp_path / "bundle")
    lexicon.write_bytes(b"x" + whole[1:])
    with pytest.raises(MtkitError, match=r"lex\.50\.50\.enpt\.s2t\.bin: not"):
        import_model(folder, tmp_path / "bundle")


def test_a_folder_with_two_models_or_none_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.old.bin").write_bytes(b"")
    with pytest.raises(MtkitError, match=r"model\.enpt\..*\.bin and model\.old\.bin"):
        import_model(folder, tmp_path / "bundle")
    (folder / "vocab.enpt.spm").unlink()
    with pytest.raises(MtkitError, match="no vocabulary"):
        import_model(folder / "model.enpt.intgemm.alphas.bin", tmp_path / "bundle")
    with pytest.raises(MtkitError, match="no model"):
        import_model(tmp_path, tmp_path / "bundle")
