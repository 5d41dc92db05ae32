#!/usr/bin/env bash
# Formatting and lints of the whole workspace; a warning is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# shellcheck source=/dev/null
. "$HOME/.cache/rehome/env"

for tool in fmt clippy; do
    if ! cargo "$tool" --version >/dev/null 2>&1; then
        printf 'check: cargo %s is missing; install it: rustup component add rustfmt clippy\n' "$tool" >&2
        exit 1
    fi
done
cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
