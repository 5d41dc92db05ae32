#!/usr/bin/env bash
# Runs the test lanes named in LANES, in that order, and stops at the first that fails. No retries.
# Ends with a table of lanes and the line `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/.."

all_lanes="tidy lint unit conformance simulation integration broker cutovers"
read -r -a lanes <<<"${LANES:-all}"
[ "${lanes[0]:-all}" != all ] || read -r -a lanes <<<"$all_lanes"
for lane in "${lanes[@]}"; do
    case " $all_lanes " in
    *" $lane "*) ;;
    *)
        printf 'test: no lane %s; lanes are: %s\n' "$lane" "$all_lanes" >&2
        exit 2
        ;;
    esac
done

scripts/setup.sh
# shellcheck source=/dev/null
. "$HOME/.cache/rehome/env"

logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT

# What needs a real broker has a lane of its own.
on_a_broker=connectors/kafka

# The crates below the given folders, as `-p NAME ...`, from the members in Cargo.toml.
packages() {
    local member dir
    while read -r member; do
        [ "$member" != "$on_a_broker" ] || continue
        for dir in "$@"; do
            [ "${member%%/*}" != "$dir" ] || awk '/^name = / { gsub(/"/, "", $3); print "-p " $3; exit }' "$member/Cargo.toml"
        done
    done < <(sed -n '/^members = \[/,/^\]/s/^ *"\(.*\)",\{0,1\}$/\1/p' Cargo.toml)
}

cargo_test() {
    local -a chosen
    read -r -a chosen <<<"$(printf '%s ' "$@")"
    cargo test --locked --no-fail-fast "${chosen[@]}"
}

lane_tidy() { cargo_test -p rehome-tidy; }
lane_lint() { scripts/check.sh; }
lane_unit() { cargo_test "$(packages schemas services | tr '\n' ' ')"; }
lane_conformance() { cargo_test "$(packages connectors | tr '\n' ' ')"; }
lane_simulation() { cargo_test -p rehome-simulation; }
lane_integration() {
    REHOME_BIN_FAILPOINTS="$(scripts/build.sh failpoints)"
    REHOME_BIN="$(scripts/build.sh dev)"
    export REHOME_BIN REHOME_BIN_FAILPOINTS
    local -a tests=(--lib)
    local file
    for file in tests/integration/tests/*.rs; do
        file="$(basename "$file" .rs)"
        case "$file" in
        apart | cutovers | demo_kafka | foreign) ;;
        *) tests+=(--test "$file") ;;
        esac
    done
    cargo_test -p rehome-integration "${tests[@]}"
}
lane_broker() {
    scripts/kafka.sh
    cargo_test -p rehome-kafka
    REHOME_BIN="$(scripts/build.sh dev)"
    export REHOME_BIN
    REHOME_PYTHON="$(scripts/python.sh)"
    export REHOME_PYTHON
    cargo_test -p rehome-integration --test apart --test demo_kafka --test foreign
}
lane_cutovers() {
    REHOME_BIN="$(scripts/build.sh dev)"
    export REHOME_BIN
    cargo_test -p rehome-integration --test cutovers
}

count() { # passed|failed, log files...
    local what="$1"
    shift
    sed -n "s/^test result: .*[^0-9]\([0-9][0-9]*\) $what;.*/\1/p" "$@" | awk '{ n += $1 } END { print n + 0 }'
}

printf -v rule '%.0s-' {1..52}
table="$(printf '%-14s %-8s %8s %8s %9s' lane result seconds passed failed)"$'\n'"$rule"
status=0
for lane in "${lanes[@]}"; do
    if [ "$status" -ne 0 ]; then
        table+=$'\n'"$(printf '%-14s %-8s' "$lane" 'not run')"
        continue
    fi
    printf '\n== lane %s\n' "$lane"
    began="$(date +%s)"
    result=ok
    # In a process of its own, so that `set -e` holds inside the lane.
    set +e
    (set -e; "lane_$lane") 2>&1 | tee "$logs/$lane"
    [ "${PIPESTATUS[0]}" -eq 0 ] || { result=FAILED; status=1; }
    set -e
    table+=$'\n'"$(printf '%-14s %-8s %8d %8d %9d' "$lane" "$result" "$(($(date +%s) - began))" \
        "$(count passed "$logs/$lane")" "$(count failed "$logs/$lane")")"
done

printf '\n%s\n\n' "$table"
printf '%d passed, %d failed\n' "$(count passed "$logs"/*)" "$(count failed "$logs"/*)"
exit "$status"
