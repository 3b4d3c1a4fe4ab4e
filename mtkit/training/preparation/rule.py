"""The rule for what a config leaves out: pure functions of the text's size and of the updates that the time allows.

| key | value | because |
|-|-|-|
| train.schedule | schedule_free | the model is good at any time, and no part of the run has a low rate |
| train.guided_alignment | 0.1 | the model begins with translations of words, and soon knows where to look |
| train.average_last | 1 with schedule_free | the last checkpoint is a mean itself, and BLEU on few sentences varies |
| tokenizer.*.vocab_size | 4,000 if 8,000 leave under 2,000 updates on a CPU | each piece occurs in more updates |
| model.n_encoder_layers, n_decoder_layers | 2 if 3 leave under 4,000 updates | few updates cannot train deep models |
| model.n_decoder_layers | 1 if 2 are chosen and leave under 8 epochs | updates are faster, and one layer is enough |
| model.d_model, d_ff, n_heads | 128, 512, 2 if 256 wide still leaves under 500 updates | two updates for one |
| the same | also if 256 wide reads under 1.5 million tokens, and the text less than twice | a narrow model reads more |
| train.batch_tokens | the largest of 1,024, 2,048, 4,096 that leaves 8,000 updates | few updates learn little |
| train.lr | 2e-3 if d_model is at most 256, with schedule_free or below 2,000 updates; else 1e-3 | it learns more |
| the same | 4e-3 if also guided, without R-Drop, of at most 2 + 2 layers, and below 4,000 updates | the same |
| model.*_dropout | 0 if the run makes fewer than 5 epochs | dropout slows learning, and little can be memorised |
| train.r_drop, r_drop_from | 3, 0.3 if the run makes at least 12 epochs | so often, a text would be memorised |

A run that starts from a model (train.init_from) has other values:

| key | value | because |
|-|-|-|
| train.lr | 2e-4 | larger steps lose what the model knows |
| train.warmup_steps | 100, at most a quarter of max_steps | such runs are short |
| train.batch_tokens | 1,024 if 4,096 would make fewer than 1,000 updates an epoch | a small text needs small updates |
| model.*_dropout | the model's; the default if mtkit chose 0 for that model | tuning sees a small text many times |

These are values for runs with a budget. A run that only train.patience ends has the first two, the train.lr of many
updates, and train.batch_tokens as in the second table. train.ema prevents the first three. Runs of more than 45 minutes
on one core have not been measured. A value in the config takes precedence. `scripts/results/rule.tsv` has the runs
behind the rule.
"""

import sys
from collections.abc import Collection
from typing import Any

from mtkit.config.model import ModelConfig
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.config.training import DEFAULT_BATCH_TOKENS, TrainConfig
from mtkit.languages import Side

GUIDED_ALIGNMENT = 0.1
# BLEU on dev with 4,000 pieces and with 8,000, side by side on two cores with AVX2, one run each. 150,000 pairs of
# English-German: 26.6 and 24.7 (15 minutes, 500 updates with 3 + 3 layers), 36.4 and 34.9 (45 minutes, 1,200); 30,000
# of French-English: 37.7 and 36.3 (15 minutes, 600). Longer runs were not compared.
FEW_PIECES = 4000
_TOO_FEW_FOR_PIECES = 2000
# In a writing system with more characters than this, 4,000 pieces would hardly be more than its characters.
LARGE_ALPHABET = 1000
SHALLOW_MODEL = {"n_encoder_layers": 2, "n_decoder_layers": 2}
_TOO_FEW_FOR_DEPTH = 4000
# In equal time, 2 + 1 layers reached a dev BLEU of 35.5 (2 + 2: 34.5 to 35.6) after one epoch of 155,555 pairs (de-en),
# but of 18.9 (20.2) after 30 epochs of 5,000. The best run of 15 minutes has them (see below).
SHALLOW_DECODER = {"n_decoder_layers": 1}
_FEW_EPOCHS = 8
# On 5,000 pairs of Tatoeba, 140 CPU seconds of updates with a cosine and 3 + 3 layers ended at a dev BLEU of 5 with the
# default width (420 updates) and of 15 with half of it (900 updates); with the other rules above, at 17.4 (600 updates)
# and 17.0 (1,300 updates).
# On larger texts, half of the width and the default, 15 minutes of a core with AVX2: 31.9 and 29.4 (en-fr, 149,000
# pairs, 1,231 updates of the default, 0.7 epochs), 29.6 and 26.6 (en-de, 150,000, 1,387, 0.8), 26.8 and 26.3 (en-de,
# 60,000, 1,405, 2.1). After 45 minutes 32.5 (with dropout) and 36.0 (en-de, 150,000, 4,200, 2.5). A narrow model made
# 2.2 to 2.6 updates for one. At two for one, both widths would have been about equal after 1,400 updates on a GPU.
NARROW_MODEL = {"d_model": 128, "d_ff": 512, "n_heads": 2}
_TOO_FEW_UPDATES = 500
_TOO_FEW_TOKENS, _FEW_READS = 1_500_000, 2
UPDATES_OF_NARROW = 2  # for one of the default width, at least; otherwise it stays

BATCH_SIZES = (1024, 2048, DEFAULT_BATCH_TOKENS)  # smaller ones are much slower per token
ENOUGH_UPDATES = 8000  # fewer: take smaller batches
# On Tatoeba the dev loss after 1,000 of 1,250 updates was 2.17 at 2e-3 and 2.22 at 1e-3.
_FEW_UPDATES, _NARROW = 2000, 256
# BLEU on dev at 4e-3 and at 2e-3, models that begin with the lexicon, side by side, one run each. English-German:
# 150,000 pairs, 6 minutes, 128 wide, 2 + 1 layers 24.4 and 21.6 (1,200 updates), 15 minutes, 256 wide 32.4 and 30.2
# (1,600); 10,000 pairs, 15 minutes, 2 + 2 layers 21.2 and 20.4 (1,100 updates, 10 epochs); 5,000 pairs with R-Drop 16.5
# and 17.0 (800). English-French: 149,000 pairs, 6 minutes, 128 wide, 2 + 1 layers 27.8 and 24.3 (1,000). Deeper models
# and runs with more updates were not measured.
_FEW_AFTER_LEXICON = 4000
# Dropout keeps a model from memorising its text, which few epochs cannot do: on that corpus 1,140 updates (0.7 epochs)
# ended with a dev loss of 2.06 and a BLEU of 25.7 without dropout, 1,200 with it with 23.8. Without dropout, and with
# 0.05 in all four places, 256 wide, 30,000 pairs (fr-en): 35.4 and 33.3 after 4 epochs, 35.8 and 36.6 after 6, 34.9 and
# 38.1 after 8; 128 wide: 29.2 and 26.9 after 4.8, 33.0 and 34.6 after 9.6; `scripts/results/width.tsv` has the runs.
EPOCHS_WITHOUT_DROPOUT = 5
# BLEU on dev with R-Drop and without, English-German, one run each. 15 minutes: 10,000 pairs (30 epochs without) 22.4
# and 21.4, 5,000 pairs (66) 16.5 and 16.2. 6 minutes: 5,000 pairs (26) 16.3 and 15.2, 5,000 others (24) 16.2 and 15.0;
# 10,000 pairs (11) 18.6 with 2 + 1 layers and 19.7 with 2 + 2. 15 minutes of a slower processor: 5,000 others (18) 15.6
# and 14.7. These models began with random weights. Those that begin with the lexicon memorise their text sooner, 15
# minutes of that processor: 5,000 pairs (18) 16.1 and 15.2, 10,000 pairs (11.5) 19.6 and 19.4. The epochs are those
# without R-Drop.
R_DROP = {"r_drop": 3.0, "r_drop_from": 0.3}
_MANY_EPOCHS = 12
DROPOUTS = ("embedding_dropout", "residual_dropout", "attention_dropout", "ffn_dropout")
# All that a run may choose and has to keep when it goes on, besides train.schedule, batch_tokens and validate_sentences
KEYS_OF_TRAIN = ("lr", "warmup_steps", "guided_alignment", "average_best", "average_last", *R_DROP)
KEYS_OF_MODEL = (*DROPOUTS, *SHALLOW_MODEL, *NARROW_MODEL)


def learning_values(cfg: Config) -> dict[str, Any]:
    """Return the keys of `train` that follow from its limits, before the text is read."""
    train = cfg.train
    if cfg.task != "translate" or train.init_from is not None or train.ema:
        return {}
    if train.budget is None and not train.has_no_limit:
        return {}
    values: dict[str, Any] = {"guided_alignment": GUIDED_ALIGNMENT}
    written = train.model_fields_set - {"schedule"}  # it may be auto
    schedule = train.schedule
    if schedule == "auto" and train.adam_betas[0] and not train.lr_floor:  # which only a cosine has
        values["schedule"] = schedule = "schedule_free"
    if schedule == "schedule_free":
        if train.budget is None:  # otherwise the width is not yet known
            rate = faster_rate(train.model_copy(update=values), sys.maxsize, cfg.model)
            values |= {} if rate is None else {"lr": rate}
        elif "average_best" not in written:
            values["average_last"] = 1
    return {key: value for key, value in values.items() if key not in written}


def sides_to_size(cfg: Config) -> list[Side]:
    """Return the sides whose tokenizers can get fewer pieces: those of translators with a budget, without own sizes."""
    if cfg.task != "translate" or cfg.train.init_from is not None or cfg.train.budget is None or cfg.tokenizer.shared:
        return []
    settings: dict[Side, TokenizerConfig] = {"src": cfg.tokenizer.src, "tgt": cfg.tokenizer.tgt}
    return [side for side, one in settings.items() if "vocab_size" not in one.model_fields_set and one.type != "char"]


def should_have_few_pieces(n_updates: int, has_few: bool | None) -> bool:
    """Return whether a run with time for n_updates of its model with the default number of pieces gets fewer.

    has_few: whether it already has tokenizers with fewer; None: it has none. They stay unless the updates are twice or
    half of the limit, because measurements differ by almost as much.
    """
    share = 1.0 if has_few is None else 2.0 if has_few else 0.5
    return n_updates < share * _TOO_FEW_FOR_PIECES


def should_be_shallow(model: ModelConfig, n_updates: int) -> bool:
    """Return whether a model with time for n_updates gets fewer layers; never if the config has their number."""
    return n_updates < _TOO_FEW_FOR_DEPTH and not SHALLOW_MODEL.keys() & model.model_fields_set


def should_have_shallow_decoder(written: ModelConfig, chosen: ModelConfig, n_reads: float) -> bool:
    """Return whether a model to which should_be_shallow has given fewer layers gets a decoder of one layer."""
    is_shallow = not SHALLOW_MODEL.keys() & written.model_fields_set and SHALLOW_MODEL.items() <= dict(chosen).items()
    return is_shallow and n_reads < _FEW_EPOCHS


def should_be_narrow(model: ModelConfig, n_updates: int, n_tokens: int, n_reads: float) -> bool:
    """Return whether a model with time for n_updates becomes a narrow one; never if the config has one of the keys.

    n_tokens: of these updates' batches in all. n_reads: how often they read the text.
    """
    has_little_time = n_updates < _TOO_FEW_UPDATES or (n_tokens < _TOO_FEW_TOKENS and n_reads < _FEW_READS)
    return has_little_time and not NARROW_MODEL.keys() & model.model_fields_set


def should_have_r_drop(cfg: Config, n_reads: float) -> bool:
    """Return whether a run that can read its text so often gets R-Drop; never if the config has one of its keys."""
    train = cfg.train
    is_possible = (
        train.init_from is None and train.patience is None and any(getattr(cfg.model, key) for key in DROPOUTS)
    )
    return is_possible and n_reads >= _MANY_EPOCHS and not R_DROP.keys() & train.model_fields_set


def faster_rate(train: TrainConfig, n_updates: int, model: ModelConfig) -> float | None:
    """Return the learning rate of a narrow model: twice train.lr if it has few updates or no schedule, else None.

    Without a schedule, it is four times train.lr if a shallow model with few updates begins with the lexicon and has no
    R-Drop.
    """
    if model.d_model > _NARROW:
        return None
    if train.schedule != "schedule_free":
        return 2 * train.lr if n_updates < _FEW_UPDATES else None
    is_shallow = all(getattr(model, key) <= n_layers for key, n_layers in SHALLOW_MODEL.items())
    is_quick = is_shallow and n_updates < _FEW_AFTER_LEXICON and not train.r_drop
    return (4 if train.begins_with_lexicon and is_quick else 2) * train.lr


_TUNING_LR, _TUNING_WARMUP = 2e-4, 100
_MANY_UPDATES = 1000  # an epoch


def tuning_values(train: TrainConfig) -> dict[str, Any]:
    """Return learning rate and warm-up of a translator that starts from a model; a written value takes precedence."""
    warmup = _TUNING_WARMUP if train.max_steps is None else min(_TUNING_WARMUP, train.max_steps // 4)
    return {"lr": _TUNING_LR, "warmup_steps": warmup}


def batch_of_small_text(n_tokens: int) -> int | None:
    """Return the batch size for a text of this many tokens without a budget; None for a large text."""
    return BATCH_SIZES[0] if n_tokens < _MANY_UPDATES * DEFAULT_BATCH_TOKENS else None


def budget_took_dropout(cfg: Config, chosen: Collection[str] | None) -> bool:
    """Return whether a run had no dropout because its budget was over within few epochs.

    chosen: the keys that mtkit chose for the run; None: its bundle does not record them, so a budget explains it.
    """
    if cfg.train.budget is None or any(getattr(cfg.model, key) for key in DROPOUTS):
        return False
    return chosen is None or any(f"model.{key}" in chosen for key in DROPOUTS)
