#!/usr/bin/env bash
# Trains the models of docs/results.md on Multi30k and scores them. Run it again to go on where it was stopped.
#
#     scripts/results/multi30k.sh          # both pairs, one after the other
#     scripts/results/multi30k.sh de       # one of them
#
# Needs data/multi30k: `scripts/get_multi30k.py --tokenised`. Options after the pair go to `mtkit train`, which runs twice:
# from nothing, and from there on with the usual spelling of each word, without BPE-dropout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PWD/.venv/bin:$PATH"

score() {  # the language and the model's run: translates test2016 and scores it as the published results are
    local reference="runs/results-multi30k-reference.$1" hypotheses="$2/test2016.$1"
    gzip -dc "data/multi30k/test_2016_flickr.lc.norm.tok.$1.gz" >"$reference"
    mtkit translate --model "$2" --input data/multi30k/test_2016_flickr.lc.norm.tok.en.gz --output "$hypotheses"
    sacrebleu "$reference" --input "$hypotheses" --tokenize none --metrics bleu --confidence
}

pairs=("${1:-de}")
(($#)) && shift || pairs=(de fr)
for language in "${pairs[@]}"; do
    config="scripts/results/multi30k-en-$language.yaml" run="runs/results-multi30k-en-$language"
    mtkit train --config "$config" "$@"
    mtkit train --config "$config" --set run_dir="$run-plain" --set train.init_from="$run" --set tokenizer.src.sampling=0 \
        --set train.max_epochs=6 --set train.lr=6e-4 --set train.warmup_steps=100 --set train.validate_every=400 "$@"
    score "$language" "$run-plain"
done
