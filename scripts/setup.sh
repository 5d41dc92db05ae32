#!/usr/bin/env bash
# Sets up what the build needs, and writes ~/.cache/rehome/env. Returns at once when everything is there.
#
#   scripts/setup.sh            compiler, libclang, OpenSSL, zlib, and RocksDB ready to link where Maven is present
#   . ~/.cache/rehome/env       afterwards, for plain cargo commands
#
# RocksDB takes 10 to 20 minutes to build from source. Where Maven is present, the library of the same version is
# taken out of the Java package instead. Without Maven, or on another platform, cargo builds it from source.
set -euo pipefail

cache="$HOME/.cache/rehome"
rocksdb_version=11.8.1
rocksdb_dir="$cache/rocksdb-$rocksdb_version"
rocksdb_so="$rocksdb_dir/librocksdbjni-linux64.so"
rocksdb_sha256=265c656af5c6502cb8d71db1a74858509f706cc47f1a5b6f603c736d11ce677d

# shellcheck source=scripts/said.sh
. "$(dirname "$0")/said.sh"

# What bindgen loads: not libclang-cpp, which lies beside it where other packages want it.
have_libclang() {
    local dir found
    for dir in "${LIBCLANG_PATH:-/nowhere}" /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib /usr/lib64 /usr/lib64/llvm*/lib; do
        for found in "$dir"/libclang.so* "$dir"/libclang-[0-9]*.so*; do
            [ -e "$found" ] && return 0
        done
    done
    return 1
}

rocksdb_is_there() {
    [ -f "$rocksdb_so" ] && printf '%s  %s\n' "$rocksdb_sha256" "$rocksdb_so" | sha256sum --check --status
}

# Takes the library out of the Java package. The linker finds `librocksdb.so`, a script that names the library by its
# full path; the library has no name of its own, so built programs refer to that path and run without LD_LIBRARY_PATH.
fetch_rocksdb() {
    local scratch
    mkdir -p "$rocksdb_dir"
    scratch="$(mktemp -d "$rocksdb_dir/.fetch.XXXXXX")"
    # shellcheck disable=SC2064  # expanded now on purpose
    trap "rm -rf '$scratch'" EXIT
    say "fetching RocksDB $rocksdb_version with Maven"
    (cd "$scratch" && mvn -q -B dependency:copy "-Dartifact=org.rocksdb:rocksdbjni:$rocksdb_version" \
        -DoutputDirectory="$scratch" >&2) || return 1
    unzip -q -j "$scratch/rocksdbjni-$rocksdb_version.jar" librocksdbjni-linux64.so -d "$scratch" || return 1
    if ! printf '%s  %s\n' "$rocksdb_sha256" "$scratch/librocksdbjni-linux64.so" | sha256sum --check --status; then
        die "the RocksDB library that Maven fetched has another SHA-256 than $rocksdb_sha256: not used"
    fi
    mv "$scratch/librocksdbjni-linux64.so" "$rocksdb_so"
}

write_if_changed() { # FILE, text from standard input
    local text
    text="$(cat)"
    if [ ! -f "$1" ] || [ "$(cat "$1")" != "$text" ]; then
        printf '%s\n' "$text" >"$1.$$"
        mv "$1.$$" "$1"
    fi
}

# librdkafka is built with cargo; it links OpenSSL and zlib.
have_header() {
    printf '#include <%s>\n' "$1" | cc -E -x c - >/dev/null 2>&1
}

missing=()
{ have cc && have c++ && have make; } || missing+=(build-essential)
have_libclang || missing+=(libclang-dev)
{ have cc && have_header openssl/ssl.h; } || missing+=(libssl-dev)
{ have cc && have_header zlib.h; } || missing+=(zlib1g-dev)
have pkg-config || missing+=(pkg-config)
have python3 || missing+=(python3)

prebuilt=no
if [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] && ! [ -e /etc/alpine-release ]; then
    if rocksdb_is_there; then
        prebuilt=yes
    elif have mvn; then
        prebuilt=fetch
        have unzip || missing+=(unzip)
    fi
fi

[ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
have cargo || die "cargo is missing: install Rust 1.95 or newer (on Debian with rustup), then run this again"

if [ "$prebuilt" = fetch ]; then
    if fetch_rocksdb; then prebuilt=yes; else
        prebuilt=no
        say "Maven could not fetch RocksDB (see above)"
    fi
fi

mkdir -p "$cache"
if [ "$prebuilt" = yes ]; then
    printf 'INPUT("%s")\n' "$rocksdb_so" | write_if_changed "$rocksdb_dir/librocksdb.so"
else
    say "RocksDB is built from source: 10 to 20 minutes, once (with Maven installed on x86_64 Linux it takes seconds)"
fi
{
    printf '# Written by scripts/setup.sh; for plain cargo: . ~/.cache/rehome/env\n'
    # shellcheck disable=SC2016  # expanded by whoever sources the file
    printf 'export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/rehome/target}"\n'
    if [ "$prebuilt" = yes ]; then
        # shellcheck disable=SC2016
        printf 'export ROCKSDB_LIB_DIR="${ROCKSDB_LIB_DIR:-$HOME/.cache/rehome/rocksdb-%s}"\n' "$rocksdb_version"
    fi
} | write_if_changed "$cache/env"
