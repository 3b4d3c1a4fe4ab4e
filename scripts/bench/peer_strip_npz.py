"""Rewrites a Marian model so that ct2-marian-converter can read it. Runs in the environment of Marian.

peer_strip_npz.py FROM.npz TO.npz

Marian pads the model's own description with NULs to a multiple of 256 bytes; the converter expects a single one.
"""

import sys

import numpy as np

source, target = sys.argv[1:]
arrays = dict(np.load(source))
description = arrays["special:model.yml"]
text = description.tobytes().rstrip(b"\0") + b"\0"
arrays["special:model.yml"] = np.frombuffer(text, dtype=description.dtype)
np.savez(target, **arrays)
