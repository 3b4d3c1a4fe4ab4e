"""A trained model in, the weights that its training began with out: drawn anew from its seed, or those it names."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from mtkit.bundle import Bundle, find_model, load_bundle
from mtkit.data.special_ids import BOS_ID, PAD_ID
from mtkit.errors import MtkitError
from mtkit.model.transformer import Transformer

# No source holds these tokens, so training leaves their vectors as they were (weight decay shortens them).
_NEVER_TRAINED = [PAD_ID, BOS_ID]
_SAME_DIRECTION = 0.9999


@dataclass(frozen=True)
class Beginning:
    """The model as it was before the first update, if that can be known."""

    model: Transformer | None
    origin: str  # where its weights come from, or why they are not known


def beginning_of(bundle: Bundle) -> Beginning:
    """The initial weights of the bundle's run: those of train.init_from, else those that its seed draws.

    Another version of torch or mtkit may draw others from the same seed, and the folder in train.init_from may hold
    another model by now: source vectors that training never moves tell, where source and target do not share theirs.
    """
    cfg, training = bundle.config, bundle.manifest.get("training", {})
    if "imported" in training:
        return Beginning(None, "the model was imported: the weights that its training began with are not in it")
    if "averaged_models" in training:
        return Beginning(None, "the model is the mean of several models, which began with weights of their own")
    if cfg.train.init_from is not None:
        try:
            origin = load_bundle(find_model(cfg.train.init_from))
        except MtkitError as error:
            return Beginning(None, f"training began with the weights of train.init_from, which cannot be read: {error}")
        begun, source = origin.model, f"the weights of train.init_from={cfg.train.init_from}"
    else:
        begun, source = drawn_model(bundle), f"the weights drawn from seed={cfg.seed}"
    if not _may_have_become(begun, bundle.model):
        return Beginning(None, f"{source} are not those that this training began with (tokens never seen differ)")
    return Beginning(begun, source)


def drawn_model(bundle: Bundle) -> Transformer:
    """A model with the weights that a run with this config and seed draws before its first update."""
    sizes = bundle.src_tokenizer.vocab_size, bundle.tgt_tokenizer.vocab_size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(bundle.config.seed)
        return Transformer(bundle.config.model, *sizes, PAD_ID).eval()


def _may_have_become(begun: Transformer, trained: Transformer) -> bool:
    before, after = begun.src_embedding.weight, trained.src_embedding.weight
    if before.shape != after.shape:
        return False
    if trained.cfg.tie == "all":
        return True  # every vector is also an output's, and each update moves all of those
    before, after = before[_NEVER_TRAINED], after[_NEVER_TRAINED]
    is_equal = (before == after).all(1)  # vectors of zeros, as imported models may have them, point nowhere
    return bool((is_equal | (F.cosine_similarity(before, after) > _SAME_DIRECTION)).all())
