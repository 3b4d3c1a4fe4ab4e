#!/usr/bin/env bash
# Trains the models of docs/results.md on Multi30k and scores them. Run it again to go on where it was stopped.
#
#     scripts/results/multi30k.sh          # both pairs, one after the other
#     scripts/results/multi30k.sh de       # one of them
#
# Needs data/multi30k: `.venv/bin/python scripts/get_multi30k.py --tokenised`. Options after the pair go to `mtkit train`, which runs three
# times: from nothing; from there on with the usual spelling of each word, without BPE-dropout; and at last with R-Drop.
# If you train the first longer, or anew, remove the folders of the two that go on from it (-plain, -r-drop).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PWD/.venv/bin:$PATH"

score() {  # the language and the model's run: translates test2016 and scores it as the published results are
    local reference="runs/results-multi30k-reference.$1" hypotheses="$2/test2016.$1"
    gzip -dc "data/multi30k/test_2016_flickr.lc.norm.tok.$1.gz" >"$reference"
    mtkit translate --model "$2" --input data/multi30k/test_2016_flickr.lc.norm.tok.en.gz --output "$hypotheses"
    sacrebleu "$reference" --input "$hypotheses" --tokenize none --metrics bleu --confidence
}

go_on() {  # config, the run before, the new one, its keys: trains from there, with the usual spelling of each word
    mtkit train --config "$1" --set train.init_from="$2" --set run_dir="$3" --set tokenizer.src.sampling=0 "${@:4}"
}

pairs=("${1:-de}")
(($#)) && shift || pairs=(de fr)
for language in "${pairs[@]}"; do
    config="scripts/results/multi30k-en-$language.yaml" run="runs/results-multi30k-en-$language"
    mtkit train --config "$config" "$@"
    go_on "$config" "$run" "$run-plain" --set train.max_epochs=6 --set train.lr=6e-4 --set train.warmup_steps=100 \
        --set train.validate_every=400 "$@"
    go_on "$config" "$run-plain" "$run-r-drop" --set train.max_epochs=30 --set train.lr=2e-3 --set train.warmup_steps=300 \
        --set train.r_drop=3 --set train.validate_every=500 "$@"
    score "$language" "$run-r-drop"
done
