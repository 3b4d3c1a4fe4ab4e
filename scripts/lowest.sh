#!/usr/bin/env bash
# Runs the unit tests with the lowest versions that pyproject.toml allows, except for torch, so that its ranges stay true.
# Arguments go to pytest. The environment is build/lowest; the first run takes some minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

if ! "$(find_python)" -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
    echo "the lowest versions have no wheels for Python 3.13 or newer; name an older one: PYTHON=python3.11 $0" >&2
    exit 1
fi
env=build/lowest
mkdir -p build
"$(find_python)" - >build/lowest.txt <<'PYTHON'
import re
import tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
wanted = project["dependencies"] + [one for extra in ("fast", "plot", "tensorboard", "dev") for one in project["optional-dependencies"][extra]]
lowest = dict(re.match(r"([\w-]+)(?:>=([\w.]+))?", one).groups() for one in wanted)
pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", open("constraints.txt").read(), re.MULTILINE))
lowest["torch"] = pinned["torch"]  # its builds are large, and each has its own kernels
print("\n".join(f"{name}=={version}" if version else name for name, version in lowest.items()))
PYTHON
cat build/lowest.txt >&2
[[ -x $env/bin/python ]] || "$(find_python)" -m venv "$env"
"$env/bin/pip" install --quiet --disable-pip-version-check -r build/lowest.txt >&2
PYTHONPATH=. "$env/bin/pytest" -n auto -m unit -W ignore::DeprecationWarning "$@" # old versions use what newer ones deprecate
