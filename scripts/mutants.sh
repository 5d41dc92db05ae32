#!/usr/bin/env bash
# Breaks the product on purpose, one patch of tests/mutations at a time, and sees that the simulation notices each.
# `scripts/mutants.sh [NAME...]` takes only those whose names begin so; SEEDS bounds each (100).
# Works in a copy, so the checkout stays as it is. A patch that no longer applies or compiles is a failure: make it anew.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
# shellcheck source=/dev/null
. "$HOME/.cache/rehome/env"

seeds="${SEEDS:-100}"
failing_max=10 # failing seeds end a survey: one that is stuck takes long
seconds_max=300
scratch="$HOME/.cache/rehome/mutants"
# Small changes, many builds.
export CARGO_TARGET_DIR="$scratch/target" CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=1

# One run at a time: the copy is the same. Copied files are new, so nothing that an earlier run built of a break stays.
mkdir -p "$scratch"
exec 9>"$scratch/lock"
flock 9
rm -rf "$scratch/tree"
mkdir "$scratch/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$scratch/tree"
cd "$scratch/tree"
log="$scratch/log"

# Tells how many of the seeds fail, and which rules spoke: `clean`, `seen ...` or what else went wrong.
survey() {
    cargo build --locked --quiet -p rehome-simulation --example survey >"$log" 2>&1 || { echo "does not compile: see $log"; return; }
    local status=0
    timeout "$seconds_max" "$CARGO_TARGET_DIR/debug/examples/survey" "$seeds" "$failing_max" >"$log" 2>&1 || status=$?
    case "$status" in
    0) echo clean ;;
    1) echo "seen in $(tail -n 1 "$log" | cut -d' ' -f1-3): $(sed '$d' "$log" | cut -d';' -f1 | paste -sd, | sed 's/,/, /g; s/ seeds//g')" ;;
    124) echo "no end after $seconds_max s" ;;
    *) echo "the survey ended with $status: see $log" ;;
    esac
}

# The same of the tests of one crate: for what the simulation cannot meet.
tests_of() { # crate
    cargo test --locked --quiet -p "$1" --no-run >"$log" 2>&1 || { echo "does not compile: see $log"; return; }
    if timeout "$seconds_max" cargo test --locked --quiet -p "$1" >"$log" 2>&1; then echo clean; return; fi
    local names
    names="$(sed -n 's/^    \([a-z0-9_:]*\)$/\1/p' "$log" | sort -u | paste -sd, | sed 's/,/, /g')"
    [ -n "$names" ] && echo "seen by $names" || echo "ended without a failed test: see $log"
}

begins() { # patch, names...
    local name
    name="$(basename "$1" .patch)"
    shift
    [ $# -eq 0 ] && return
    for wanted in "$@"; do
        [[ "$name" != "$wanted"* ]] || return 0
    done
    return 1
}

found="$(survey)"
[ "$found" = clean ] || { printf 'mutants: the product as it is: %s\n' "$found" >&2; exit 1; }
seen=0 unseen=0
for patch in tests/mutations/*.patch; do
    begins "$patch" "$@" || continue
    if patch --batch --forward --strip=1 --no-backup-if-mismatch --input="$patch" >"$log" 2>&1; then
        crate="$(sed -n 's/^seen by: the tests of //p' "$patch")"
        found="$(if [ -n "$crate" ]; then tests_of "$crate"; else survey; fi)"
        patch --batch --reverse --strip=1 --no-backup-if-mismatch --input="$patch" >/dev/null
    else
        found="does not apply: $(tail -n 1 "$log")"
    fi
    case "$found" in seen*) seen=$((seen + 1)) ;; *) unseen=$((unseen + 1)) ;; esac
    printf '%-40s %s\n' "$(basename "$patch" .patch)" "$found"
done
printf '%s breaks seen, %s not\n' "$seen" "$unseen"
[ "$seen" -gt 0 ] && [ "$unseen" -eq 0 ]
