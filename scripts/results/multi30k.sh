#!/usr/bin/env bash
# Trains two models for each pair of Multi30k (docs/results.md), of one config and two seeds, side by side on a core each;
# lets them translate test together; and scores that as published results are. Run it again to go on where it was stopped.
#
#     scripts/results/multi30k.sh          # both pairs, one after the other
#     scripts/results/multi30k.sh de       # one of them
#
# Needs data/multi30k: `.venv/bin/python scripts/get_multi30k.py --tokenised`. Options after the pair go to `mtkit train`.
# Ctrl-C stops both trainings, each with a checkpoint.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH="$PWD/.venv/bin:$PATH"

stop() { kill -TERM "${trainings[@]}" 2>/dev/null || true; wait; exit 130; }
trap stop INT TERM

pairs=("${1:-de}")
(($#)) && shift || pairs=(de fr)
for language in "${pairs[@]}"; do
    name="runs/results-multi30k-en-$language"
    mkdir -p runs
    trainings=()
    models=()
    for seed in 1 2; do
        echo "seed $seed: see $name-$seed.log"
        mtkit train --config "scripts/results/multi30k-en-$language.yaml" \
            --set run_dir="$name-$seed" --set seed="$seed" "$@" >>"$name-$seed.log" 2>&1 &
        trainings+=($!)
        models+=(--model "$name-$seed")
    done
    n_failed=0
    for training in "${trainings[@]}"; do wait "$training" || n_failed=$((n_failed + 1)); done
    trainings=()  # for `stop`
    if ((n_failed)); then
        echo "$n_failed of 2 trainings ended early; the logs say why" >&2
        exit 1
    fi
    mtkit translate "${models[@]}" --input data/multi30k/test_2016_flickr.lc.norm.tok.en.gz --output "$name.test2016"
    gzip -dc "data/multi30k/test_2016_flickr.lc.norm.tok.$language.gz" >"$name.reference"
    sacrebleu "$name.reference" --input "$name.test2016" --tokenize none --metrics bleu --confidence
done
