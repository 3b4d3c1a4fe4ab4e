"""Rewrites a Marian model so that ct2-marian-converter computes what Marian does. Runs in the environment of Marian.

peer_strip_npz.py FROM.npz TO.npz

Marian pads the model's own description with NULs to a multiple of 256 bytes; the converter expects a single one. And
the rates of Marian's sinusoids are 10000^(-i / (d/2 - 1)), while the converter takes d/2 unless it finds positions.
"""

import sys

import numpy as np

N_POSITIONS = 1024

source, target = sys.argv[1:]
arrays = dict(np.load(source))
description = arrays["special:model.yml"]
text = description.tobytes().rstrip(b"\0") + b"\0"
arrays["special:model.yml"] = np.frombuffer(text, dtype=description.dtype)
if "Wpos" not in arrays:
    embedding = arrays["Wemb"] if "Wemb" in arrays else arrays["encoder_Wemb"]
    half = embedding.shape[1] // 2
    angles = np.arange(N_POSITIONS)[:, None] * 10000.0 ** (-np.arange(half) / (half - 1))
    arrays["Wpos"] = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
np.savez(target, **arrays)
