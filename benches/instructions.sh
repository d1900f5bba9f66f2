#!/usr/bin/env bash
# User instructions for one query of the workload, from datagram to reply, without the system calls:
# counted by callgrind, so that a busy machine changes nothing. The same sources give the same count,
# within the noise of hash seeds and addresses.
#
# Usage: benches/instructions.sh [QUERIES] [WORKLOAD-OPTION...]    [20000]

set -euo pipefail

count=${1:-20000}
[[ $count =~ ^[1-9][0-9]*$ ]] || { echo "instructions.sh: $count is no number of queries" >&2; exit 2; }
command -v valgrind >/dev/null ||
    { echo "instructions.sh: valgrind is needed (apt-get install valgrind)" >&2; exit 1; }
cd "$(dirname "$0")/.."
release=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d "${TMPDIR:-/tmp}/meridian-instructions.XXXXXX")
trap 'rm -rf "$work"' EXIT

cargo build --release --locked --example workload --example instructions
"$release/examples/workload" "$work/workload" --meridian-only --queries "$count" "${@:2}"
timeout 600 valgrind --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no \
    --toggle-collect='*answer_all*' "$release/examples/instructions" "$work/workload" \
    --count "$count" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
total=$(sed -n 's/^\(totals\|summary\): \([0-9]*\).*/\2/p' "$work/out" | tail -n 1)
((${total:-0} > 0)) || { cat "$work/log" >&2; echo "instructions.sh: nothing was counted" >&2; exit 1; }
awk -v t="$total" -v n="$count" \
    'BEGIN { printf "%.0f instructions a query (%d over %d queries)\n\n", t / n, t, n }'
# A function has a line for each file that something inlined into it is from; they are added up.
echo "The most of them in:"
callgrind_annotate --auto=no --show-percs=no --threshold=100 "$work/out" | awk -v n="$count" '
    /^ *[0-9,]+ +[^ ]+:/ {
        own = $1
        gsub(",", "", own)
        sub(/^ *[0-9,]+ +[^:]*:/, "")
        sub(/ \[[^]]*\]$/, "")
        sum[$0] += own
    }
    END { for (name in sum) printf "%8.1f  %s\n", sum[name] / n, name }' | sort -rn | head -n 25
