#!/bin/sh
# Make a virtual environment with pip in it: make_venv.sh FOLDER [PYTHON]
#
# Debian keeps ensurepip, which `python3 -m venv` needs for pip, in a package of its own. Where it is
# lacking, pip comes from whatever else there is, in this order: the system's pip, virtualenv, the wheel
# that other Debian packages carry. If there is none, one line says what to install.
set -eu

folder=$1
wanted=${2:-}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=
for candidate in ${wanted:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "make_venv: needs Python 3.11 or newer, was ${wanted:-$(python3 --version 2>&1 || true)}" >&2
    echo "make_venv: name one with: make install PYTHON=/path/to/python3" >&2
    exit 1
fi

finished=
trap '[ -n "$finished" ] || rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

has() {
    "$python" -c "import $1" 2>/dev/null
}

has_pip() {
    "$folder/bin/python" -m pip --version >/dev/null 2>&1
}

if has ensurepip && "$python" -m venv "$folder" && has_pip; then
    finished=yes
    exit 0
fi

echo "make_venv: $python has no usable ensurepip; looking for another pip" >&2
rm -rf "$folder"
if has venv && "$python" -m venv --without-pip "$folder"; then
    # pip can install into another environment since 22.3.
    if has pip && "$python" -m pip --python "$folder/bin/python" install --quiet pip && has_pip; then
        finished=yes
        exit 0
    fi
    for wheel in /usr/share/python-wheels/pip-*.whl; do
        if [ -e "$wheel" ] &&
            "$folder/bin/python" "$wheel/pip" install --quiet --no-index "$wheel" && has_pip; then
            finished=yes
            exit 0
        fi
    done
fi
rm -rf "$folder"
if has virtualenv && "$python" -m virtualenv --quiet "$folder" && has_pip; then
    finished=yes
    exit 0
fi
echo "make_venv: found no ensurepip, pip or virtualenv; on Debian and Ubuntu this helps:" >&2
echo "    apt-get install -y python3-venv" >&2
exit 1
