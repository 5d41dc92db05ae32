#!/usr/bin/env bash
# Builds, fetches the flights, and runs the demo. Arguments go to `rehome demo`; with --input the flights are not needed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

rows=()
case " $* " in
*" --input "* | *" --input="* | *" --help "*) ;;
*)
    if ! flights="$(scripts/fetch-flights.sh | tail -n 1)"; then
        {
            printf '\ndemo: the flights could not be fetched (see above). Other rows work as well:\n'
            printf "  make demo ARGS='--input zipf'                                     generated rows\n"
            printf "  make demo ARGS='--input FILE.csv --key COLUMN [--sort COLUMN]'    a CSV or Parquet file\n"
        } >&2
        exit 1
    fi
    rows=(--input "$flights" --key origin --sort date)
    ;;
esac
case " $* " in
*" --kafka-brokers"*) ;;
*" --kafka "*) scripts/kafka.sh ;; # the broker that the demo starts
esac
binary="$(scripts/build.sh | tail -n 1)"
exec "$binary" demo "${rows[@]}" "$@"
