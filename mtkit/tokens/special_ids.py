"""Token ids with the same meaning on both sides of every model."""

PAD_ID = 0  # pads the shorter sentences of a batch; never predicted or attended to
UNK_ID = 1  # text without a piece; does not occur with byte fallback
BOS_ID = 2  # <start>: first input of the decoder
EOS_ID = 3  # <end>: ends every source and every target
