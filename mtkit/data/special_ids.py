"""The ids that mean the same on both sides, in every model."""

PAD_ID = 0  # fills a batch's shorter sentences; never predicted, never looked at
UNK_ID = 1  # text that the tokenizer cannot spell; does not occur with byte fallback
BOS_ID = 2  # <start>: what the decoder is given first
EOS_ID = 3  # <end>: closes every source and every target
