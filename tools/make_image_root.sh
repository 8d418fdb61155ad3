#!/bin/sh
# Install gitsync with its hashed requirements into an empty folder, as a virtual environment: what the container image contains.
# Usage: tools/make_image_root.sh FOLDER, in the root of a checkout. Needs Python 3.11 or newer and its package index.
set -eu
root=$1
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
flags="--quiet --disable-pip-version-check"

python3 -m venv "$root"
"$root/bin/python" -m pip install $flags --no-deps --require-hashes -r requirements-image.txt
python3 -m venv "$build/venv"
"$build/venv/bin/python" -m pip install $flags --no-deps --require-hashes -r requirements-build.txt
"$build/venv/bin/python" -m hatchling build -t wheel -d "$build/wheel"
"$root/bin/python" -m pip install $flags --no-deps "$build"/wheel/*.whl
# the program needs no installer, which could change it
"$root/bin/python" -m pip uninstall $flags --yes pip
