#!/usr/bin/env bash
# Fetches the three million flights of the demo into ~/.cache/rehome/data, once, with npm; checks their digest.
# Prints the file's path as the last line.
set -euo pipefail

dir="$HOME/.cache/rehome/data"
file="$dir/flights-3m.parquet"
package=vega-datasets
version=3.2.1
sha256=dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0

say() { printf 'flights: %s\n' "$*" >&2; }
is_good() { printf '%s  %s\n' "$sha256" "$1" | sha256sum --check --status; }

if [ -f "$file" ] && is_good "$file"; then
    printf '%s\n' "$file"
    exit 0
fi

if ! command -v npm >/dev/null 2>&1; then
    line="apt-get update && apt-get install -y --no-install-recommends npm"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing npm"
        DEBIAN_FRONTEND=noninteractive sh -c "$line" >&2
    else
        say "npm is missing. Run this once, then again what you just ran:"
        printf "sudo sh -c '%s'\n" "$line" >&2
        exit 1
    fi
fi

mkdir -p "$dir"
scratch="$(mktemp -d "$dir/.fetch.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
say "fetching $package $version with npm"
(cd "$scratch" && npm pack --silent "$package@$version" >/dev/null)
tar -xzf "$scratch/$package-$version.tgz" -C "$scratch" package/data/flights-3m.parquet
if ! is_good "$scratch/package/data/flights-3m.parquet"; then
    say "flights-3m.parquet of $package $version has another SHA-256 than $sha256: not used"
    exit 1
fi
mv "$scratch/package/data/flights-3m.parquet" "$file"
printf '%s\n' "$file"
