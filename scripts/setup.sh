# Sourced by quickstart.sh and test.sh, in the repository's root: .venv with mtkit and the pinned dependencies.
# shellcheck shell=bash

# Print a Python that is new enough: $PYTHON, else the first of the usual names.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "no Python 3.11 or newer in PATH; install it, or name it: PYTHON=/path/to/python3 $0" >&2
    return 1
}

# moved: whether .venv was made in another place. Its programs name that place, so they do not run here. A link is fine.
moved() {
    [[ ! -L .venv && -f .venv/bin/pip ]] && ! grep -qF "$(pwd -P)/.venv/" .venv/bin/pip
}

# set_up EXTRAS: make .venv unless it is there, and install mtkit[EXTRAS] unless that was done for the same pins.
set_up() {
    local extras=$1 python stamp pins
    if moved || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        echo "Making .venv with $("$python" --version)" >&2
        if ! "$python" -m venv --clear .venv; then
            echo "could not make .venv; on Debian and Ubuntu: sudo apt install python3-venv" >&2
            return 1
        fi
    fi
    stamp=.venv/mtkit-installed-${extras//,/-}
    pins=$(cat pyproject.toml constraints.txt)
    if [[ -f $stamp && $(<"$stamp") == "$pins" ]]; then
        return
    fi
    echo "Installing mtkit and its pinned dependencies into .venv; this takes some minutes the first time" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]" >&2
    printf '%s\n' "$pins" >"$stamp"
}
