#!/usr/bin/env bash
# Installs mtkit into .venv and runs `mtkit demo`: a small English-French translator, trained here, in some minutes.
# Run it again at any time: it skips what is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

set_up fast,plot,documents
.venv/bin/mtkit demo "$@"
echo "In a new shell, first: source .venv/bin/activate" >&2
