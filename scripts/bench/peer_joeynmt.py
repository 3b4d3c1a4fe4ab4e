"""Decodes token ids with JoeyNMT's own search and a Transformer of random weights. Runs in the environment of joeynmt.

peer_joeynmt.py TASK, a JSON file written by compare_joeynmt.py; prints the seconds and the target tokens as JSON.
"""
# mypy: disable-error-code="import-not-found"

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
torch.set_num_threads(1)
torch.manual_seed(1)
specials = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
ids = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": None}
pieces = [f"p{number}" for number in range(4, task["vocab_size"])]
vocabulary = Vocabulary(pieces, SimpleNamespace(**specials, **ids, lang_tags=[]))
layers = {
    "type": "transformer",
    "num_layers": task["n_layers"],
    "num_heads": task["n_heads"],
    "hidden_size": task["d_model"],
    "ff_size": task["d_ff"],
    "layer_norm": "pre",
    "embeddings": {"embedding_dim": task["d_model"], "scale": True},
}
model = build_model({"encoder": layers, "decoder": layers, "tied_softmax": True}, vocabulary, vocabulary).eval()


def decode(sentences: list[list[int]], limit: int) -> int:
    """Translate a batch into exactly so many tokens a sentence; returns how many these are."""
    lengths = torch.tensor([len(sentence) + 1 for sentence in sentences])
    rows = [[*x, ids["eos_id"], *[ids["pad_id"]] * (int(lengths.max()) - len(x) - 1)] for x in sentences]
    batch = Batch(
        src=torch.tensor(rows),
        src_length=lengths,
        src_prompt_mask=None,
        trg=None,
        trg_prompt_mask=None,
        indices=torch.arange(len(rows)),
        device=torch.device("cpu"),
        pad_index=vocabulary.pad_index,
        eos_index=vocabulary.eos_index,
        is_train=False,
    )
    # its output layer has no bias, so that the end is forbidden by its own option
    found, _, _ = search(model, batch, limit, task["beam_size"], beam_alpha=0.6, min_output_length=limit)
    return sum(map(len, found.tolist()))


decode(task["batches"][0], task["limits"][0])  # first calls are slower
started = time.perf_counter()
n_tokens = sum(map(decode, task["batches"], task["limits"]))
print(json.dumps({"seconds": time.perf_counter() - started, "tokens": n_tokens}))
