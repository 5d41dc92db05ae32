#!/usr/bin/env bash
# Builds the binary and prints its path as the last line.
#
#   scripts/build.sh               the optimised development build that demo and tests use
#   scripts/build.sh failpoints    the same with fail points compiled in, beside it, as rehome-failpoints
#   scripts/build.sh release       what is shipped: RocksDB from source, whole-program optimisation
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# shellcheck source=/dev/null
. "$HOME/.cache/rehome/env"

case "${1:-dev}" in
dev)
    cargo build --locked -p rehome-cli >&2
    printf '%s\n' "$CARGO_TARGET_DIR/debug/rehome"
    ;;
failpoints)
    # Features are part of a crate's identity in the target folder, so both builds share every dependency and neither
    # throws the other away; only the name `rehome` is shared, so this one is copied and `rehome` put back.
    cargo build --locked -p rehome-cli --features failpoints >&2
    # Removed first: a copy may be running, and a running file cannot be written.
    rm -f "$CARGO_TARGET_DIR/debug/rehome-failpoints"
    cp "$CARGO_TARGET_DIR/debug/rehome" "$CARGO_TARGET_DIR/debug/rehome-failpoints"
    cargo build --locked -p rehome-cli >&2
    printf '%s\n' "$CARGO_TARGET_DIR/debug/rehome-failpoints"
    ;;
release)
    export ROCKSDB_COMPILE=1
    if [ "$(uname -m)" = x86_64 ]; then
        # RocksDB's checksums use these instructions only where the compiler is told that they are there.
        export RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }-C target-feature=+sse4.2,+pclmulqdq"
    fi
    if command -v ccache >/dev/null 2>&1; then
        export CC="ccache ${CC:-cc}" CXX="ccache ${CXX:-c++}"
    fi
    cargo build --locked --release -p rehome-cli >&2
    printf '%s\n' "$CARGO_TARGET_DIR/release/rehome"
    ;;
*)
    printf 'build: unknown kind %s; one of: dev failpoints release\n' "$1" >&2
    exit 2
    ;;
esac
