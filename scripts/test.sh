#!/usr/bin/env bash
# Installs what development needs into .venv, then checks format, style, types, import layers, English and behaviour.
#   scripts/test.sh          the checks and the default tests
#   scripts/test.sh unit     the checks and the quickest tests, about a minute and a half
#   scripts/test.sh slow     the checks and the tests that the default leaves out
# Further arguments go to pytest: `scripts/test.sh -k tokenizer`. Tests run on all cores; `-n 0` runs them in one process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

tier=()
if [[ ${1:-} == unit || ${1:-} == slow ]]; then
    tier=(-m "$1")
    shift
fi
set_up dev,docs,fast,plot,tensorboard,data,ray,serve
run() {
    echo "+ $*" >&2
    ".venv/bin/$1" "${@:2}"
}
run ruff format --check .
run ruff check .
run mypy & # at the same time as the next two, because each of them uses one core
checks=$!
run lint-imports
run python scripts/check_words.py
wait "$checks"
run pytest -n auto --dist worksteal ${tier[@]+"${tier[@]}"} "$@" # as bash 3 wants an array that may be empty
