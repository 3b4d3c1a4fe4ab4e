#!/usr/bin/env bash
# Installs what developing needs into .venv, then checks format, style, types, import layers and behaviour.
# Arguments go to pytest: `scripts/test.sh -k tokenizer`, `scripts/test.sh -m slow`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

set_up dev,fast,plot,tensorboard
run() {
    echo "+ $*" >&2
    ".venv/bin/$1" "${@:2}"
}
run ruff format --check .
run ruff check .
run mypy
run lint-imports
run pytest "$@"
