"""Translates lines with a CTranslate2 model, under mtkit's length limit. Runs in the environment of Marian.

peer_translate.py MODEL SRC_SPM TGT_SPM INPUT OUTPUT BEAM_SIZE LENGTH_PENALTY THREADS MAX_LEN_FACTOR MAX_LEN_CONSTANT
"""

import sys
from itertools import groupby
from pathlib import Path

import ctranslate2
import sentencepiece

model, src_spm, tgt_spm, source, output, beam_size, length_penalty, threads, factor, constant = sys.argv[1:]
encoder = sentencepiece.SentencePieceProcessor(model_file=src_spm)
decoder = sentencepiece.SentencePieceProcessor(model_file=tgt_spm)
translator = ctranslate2.Translator(model, compute_type="float32", intra_threads=int(threads))
# only LF ends a line: splitlines() would cut at U+2028, too
lines = Path(source).read_text(encoding="utf-8").removesuffix("\n").split("\n")
pieces = [encoder.encode(line, out_type=str) for line in lines]
texts = [""] * len(lines)
by_length = sorted((number for number in range(len(lines)) if pieces[number]), key=lambda number: len(pieces[number]))
for n_pieces, group in groupby(by_length, key=lambda number: len(pieces[number])):
    numbers = list(group)
    results = translator.translate_batch(
        [pieces[number] for number in numbers],
        beam_size=int(beam_size),
        length_penalty=float(length_penalty),
        max_decoding_length=int(float(factor) * n_pieces) + int(constant),  # as mtkit: runaway sentences cost BLEU
        max_batch_size=64,
        disable_unk=True,
    )
    for number, result in zip(numbers, results, strict=True):
        texts[number] = decoder.decode(result.hypotheses[0]).replace("\n", " ")
Path(output).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
