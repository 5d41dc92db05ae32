#!/usr/bin/env bash
# Makes sure of the clients of others that tests use: kcat, and a Python with confluent-kafka. Prints the path of that
# Python. Returns at once when everything is there; kept in ~/.cache/rehome/python.
#
#   scripts/python.sh
set -euo pipefail
cd "$(dirname "$0")/.."

needed=tests/oracle/requirements.txt

# shellcheck source=scripts/said.sh
. scripts/said.sh

mkdir -p "$HOME/.cache/rehome"
exec 9>"$HOME/.cache/rehome/python.lock"
flock 9
missing=()
have kcat || missing+=(kcat)
have python3 || missing+=(python3)
{ have python3 && python3 -c 'import ensurepip' 2>/dev/null; } || missing+=(python3-venv)
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"

venv="$HOME/.cache/rehome/python/$(sha256sum <"$needed" | cut -c 1-16)"
if ! [ -x "$venv/bin/python" ]; then
    say "making a Python with confluent-kafka"
    rm -rf "$venv.new"
    python3 -m venv "$venv.new" >&2
    "$venv.new/bin/python" -m pip install --quiet --disable-pip-version-check -r "$needed" >&2 ||
        die "pip could not install what $needed names: see the lines above"
    mv "$venv.new" "$venv"
fi
printf '%s\n' "$venv/bin/python"
