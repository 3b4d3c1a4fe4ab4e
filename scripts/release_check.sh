#!/usr/bin/env bash
# Checks a release: builds the sdist, and the wheel from it; installs the wheel into a bare environment; uses it outside the clone.
#   scripts/release_check.sh          some ten minutes on two cores, half of them for the install
#   scripts/release_check.sh quick    trains for a few steps: everything runs, but the translations are no good
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

root=$PWD
short=()
if [[ ${1:-} == quick ]]; then
    short=(--set train.max_epochs=null --set train.max_steps=20 --set train.warmup_steps=5 --set train.validate_every=20
        --set train.validate_sentences=20 --set decode.max_len=12)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
step() {
    echo "== $*" >&2
}

step "Build the sdist, and the wheel from it"
"$(find_python)" -m venv "$work/build"
"$work/build/bin/pip" install --quiet --disable-pip-version-check build
"$work/build/bin/python" -m build --outdir "$work/dist" . >"$work/build.log" || { cat "$work/build.log" && exit 1; }
(cd "$work/dist" && ls -l ./*)

step "Install the wheel into a bare environment"
"$(find_python)" -m venv "$work/env"
"$work/env/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt "$work"/dist/*.whl
echo "$(du -sh "$work/env" | cut -f1) in the environment"

mkdir "$work/user"
cd "$work/user"
mtkit() {
    echo "+ mtkit $*" >&2
    "$work/env/bin/mtkit" --quiet "$@"
}
step "Use it in an empty folder"
mtkit --version
mtkit demo ${short[@]+"${short[@]}"}
mtkit translate "I love oranges." "The old cat sleeps."
mtkit evaluate --src data/sample/test.en --ref data/sample/test.fr
mtkit inspect attention "I love oranges." -o attention.html
for page in runs/sample-en-fr/report.html attention.html; do
    grep -q '</html>' "$page"
    echo "$page: $(wc -c <"$page") bytes"
done
imported=$("$work/env/bin/python" -c 'import mtkit; print(mtkit.__file__)')
[[ $imported == "$work"/env/* ]] || { echo "mtkit was imported from $imported, not from the wheel" >&2 && exit 1; }
step "The release of $root works"
