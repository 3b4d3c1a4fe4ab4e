"""Translates lines greedily with a MarianMT folder, under a length limit. Runs in the environment of transformers.

peer_transformers.py FOLDER INPUT OUTPUT THREADS MAX_LEN_FACTOR MAX_LEN_CONSTANT
"""

import sys
from itertools import groupby
from pathlib import Path

import torch
from transformers import MarianMTModel, MarianTokenizer

folder, source, output, threads, factor, constant = sys.argv[1:]
torch.set_num_threads(int(threads))
tokenizer = MarianTokenizer.from_pretrained(folder)
model = MarianMTModel.from_pretrained(folder).eval()
# by default the last token before the limit is made </s>, whatever the model says
model.config.forced_eos_token_id = model.generation_config.forced_eos_token_id = None
# only LF ends a line: splitlines() would cut at U+2028, too
lines = Path(source).read_text(encoding="utf-8").removesuffix("\n").split("\n")
n_tokens = [len(tokenizer(line).input_ids) - 1 for line in lines]  # without </s>
texts = [""] * len(lines)
by_length = sorted((number for number in range(len(lines)) if n_tokens[number]), key=lambda number: n_tokens[number])
for n, group in groupby(by_length, key=lambda number: n_tokens[number]):
    numbers = list(group)
    for first in range(0, len(numbers), 64):
        some = numbers[first : first + 64]
        batch = tokenizer([lines[number] for number in some], return_tensors="pt", padding=True)
        limit = int(float(factor) * n) + int(constant)
        with torch.no_grad():
            ids = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=limit)
        decoded = tokenizer.batch_decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False, use_source_tokenizer=False
        )
        for number, text in zip(some, decoded, strict=True):
            texts[number] = text.replace("\n", " ")
Path(output).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
