#!/usr/bin/env bash
# Trains a model for each pair of Multi30k (docs/results.md) and scores it as published results are.
# Run it again to go on where it was stopped.
#
#     scripts/results/multi30k.sh          # both pairs, one after the other
#     scripts/results/multi30k.sh de       # one of them
#
# Needs data/multi30k: `.venv/bin/python scripts/get_multi30k.py --tokenised`. Options after the pair go to `mtkit train`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PWD/.venv/bin:$PATH"

pairs=("${1:-de}")
(($#)) && shift || pairs=(de fr)
for language in "${pairs[@]}"; do
    run="runs/results-multi30k-en-$language"
    mtkit train --config "scripts/results/multi30k-en-$language.yaml" "$@"
    mtkit translate --model "$run" --input data/multi30k/test_2016_flickr.lc.norm.tok.en.gz --output "$run/test2016"
    gzip -dc "data/multi30k/test_2016_flickr.lc.norm.tok.$language.gz" >"$run/test2016.reference"
    sacrebleu "$run/test2016.reference" --input "$run/test2016" --tokenize none --metrics bleu --confidence
done
