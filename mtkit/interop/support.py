"""Check which models other systems' formats can express."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mtkit.config.model import ModelConfig
    from mtkit.model.transformer import Transformer

Target = Literal["ctranslate2", "argos", "marian", "bergamot", "page", "hf"]
Quantization = Literal["float32", "int8", "float16", "bfloat16", "int8_float16", "int8_bfloat16"]  # CTranslate2's

_INT8_BLOCK = 64  # inner sizes that 8-bit products of all processors support

_NAMES: dict[Target, str] = {
    "ctranslate2": "CTranslate2",
    "argos": "Argos Translate",
    "marian": "Marian",
    "bergamot": "Bergamot",
    "page": "Bergamot",
    "hf": "MarianMT",
}
_MARIAN: dict[str, tuple[str | bool, ...]] = {
    "norm": ("layernorm",),
    "positions": ("marian",),
    "src_end": (True,),
    "activation": ("relu", "silu"),  # Marian's gelu is x sigmoid(1.702 x), not ours
}
# With norms before the layers, the engine would compute keys and values of self-attention without their norm.
_BERGAMOT = {**_MARIAN, "norm_position": ("post",), "tie": ("all", "decoder")}
# The supported values of keys that a format supports only in part.
_KNOWN: dict[Target, dict[str, tuple[str | bool, ...]]] = {
    "ctranslate2": {"decoder": ("attention",)},
    "argos": {"decoder": ("attention",)},
    "marian": _MARIAN,
    "bergamot": _BERGAMOT,
    "page": _BERGAMOT,
    "hf": {
        "norm": ("layernorm",),
        "norm_position": ("post",),
        "positions": ("sinusoidal", "marian"),
        "src_end": (True,),
        "activation": ("relu", "silu", "gelu"),
        "decoder": ("attention",),
    },
}
# Of Hugging Face's other architecture, for models that come from there.
_M2M100: dict[str, tuple[str | bool, ...]] = {
    **_KNOWN["hf"],
    "norm_position": ("pre",),
    "positions": ("fairseq",),
    "tie": ("all",),
}
_OF_MANY_LANGUAGES: tuple[Target, ...] = ("hf", "ctranslate2", "argos")


def export_problems(cfg: "ModelConfig", target: Target, model: "Transformer | None" = None) -> list[str]:
    """Return a sentence for each thing that the target's format cannot express; [] if it can express all.

    model: the trained model, if there is one yet, whose weights are checked too.
    """
    if cfg.end_first and target not in _OF_MANY_LANGUAGES:
        formats = ", ".join(f"--to {name}" for name in _OF_MANY_LANGUAGES)
        return [
            f"{_NAMES[target]} cannot choose the target language of a model with model.end_first=True, such as NLLB; "
            f"formats that can: {formats}"
        ]
    of_hf = ("M2M-100", _M2M100) if cfg.end_first else (_NAMES[target], _KNOWN[target])
    name, supported = of_hf if target == "hf" else (_NAMES[target], _KNOWN[target])
    problems = [
        f"{name} has no counterpart of model.{key}={value}; only {' or '.join(map(str, known))}"
        for key, known in supported.items()
        if (value := getattr(cfg, key)) not in known
    ]
    if target in ("bergamot", "page"):
        problems += [
            f"Bergamot's products need a multiple of {_INT8_BLOCK}, unlike model.{key}={size}"
            for key in ("d_model", "d_ff")
            if (size := getattr(cfg, key)) % _INT8_BLOCK
        ]
    from_zeros = target in ("marian", "bergamot", "page") and not problems
    if from_zeros and model and model.tgt_embedding.weight[model.bos_id].count_nonzero():
        problems.append(
            "Marian's decoder starts from zeros, but this model's from a learned embedding of <start>; fine-tune it "
            "(train.init_from), which begins by setting that embedding to 0"
        )
    return problems
