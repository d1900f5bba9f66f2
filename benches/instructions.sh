#!/usr/bin/env bash
# User instructions that a UDP worker spends on a query of the workload: all of its loop (batches, reading,
# look-up, decision, writing, counting) without the system calls, in the server itself, counted by callgrind,
# so that a busy machine changes little: batches are as full as the generator's window allows.
#
# Usage: benches/instructions.sh [QUERIES] [WORKLOAD-OPTION...]    [50000]

set -euo pipefail

count=${1:-50000}
[[ $count =~ ^[1-9][0-9]*$ ]] || { echo "instructions.sh: $count is no number of queries" >&2; exit 2; }
command -v valgrind >/dev/null ||
    { echo "instructions.sh: valgrind is needed (apt-get install valgrind)" >&2; exit 1; }
cd "$(dirname "$0")/.."
release=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d "${TMPDIR:-/tmp}/meridian-instructions.XXXXXX")
server=''
stop() {
    [[ -z $server ]] || kill -TERM "$server" 2>/dev/null || true
    [[ -z $server ]] || wait "$server" 2>/dev/null || true
    server=''
}
trap 'stop; rm -rf "$work"' EXIT

readonly port=15391
cargo build --release --locked --bin meridian --example workload --example flood
"$release/examples/workload" "$work" --port $port --meridian-only --queries "$count" "${@:2}"
valgrind --tool=callgrind --callgrind-out-file="$work/out" --instr-atstart=no \
    --collect-atstart=no --toggle-collect='*Worker*take_batch*' \
    "$release/meridian" serve --config "$work/meridian/meridian.toml" >"$work/log" 2>&1 &
server=$!
fail() {
    tail -n 20 "$work/log" >&2
    echo "instructions.sh: $*" >&2
    exit 1
}
read -r name _ subnet <"$work/queries"
for ((try = 0; ; try++)); do
    dig @127.0.0.1 -p $port "$name" A "+subnet=$subnet" +tries=1 +time=1 | grep -q 'status: NOERROR' && break
    kill -0 "$server" 2>/dev/null && ((try < 120)) || fail "the server does not start"
    sleep 0.25
done
flood() {
    "$release/examples/flood" --server 127.0.0.1:$port --queries "$work/queries" --window 128 --json "$@"
}
# Until the server knows how much there is to count.
flood --seconds 3 >/dev/null || fail "the generator failed"
callgrind_control --instr=on "$server" >/dev/null || fail "callgrind does not hear"
flood --count "$count" --seconds 300 >"$work/answers" || fail "the generator failed"
stop
answered=$(sed -n 's/.*"answered": *\([0-9]*\).*/\1/p' "$work/answers")
((${answered:-0} * 100 >= count * 99)) || fail "few answers: $(<"$work/answers")"
total=$(sed -n 's/^\(totals\|summary\): \([0-9]*\).*/\2/p' "$work/out" | tail -n 1)
((${total:-0} > 0)) || fail "nothing was counted"
awk -v t="$total" -v n="$answered" \
    'BEGIN { printf "%.0f instructions a query (%d over %d queries)\n\n", t / n, t, n }'
# A function has a line for each file that something inlined into it is from; they are added up.
echo "The most of them in:"
callgrind_annotate --auto=no --show-percs=no --threshold=100 "$work/out" | awk -v n="$answered" '
    /^ *[0-9,]+ +[^ ]+:/ {
        own = $1
        gsub(",", "", own)
        sub(/^ *[0-9,]+ +[^:]*:/, "")
        sub(/ \[[^]]*\]$/, "")
        sum[$0] += own
    }
    END { for (name in sum) printf "%8.1f  %s\n", sum[name] / n, name }' | sort -rn | head -n 25
[[ -z ${KEEP-} ]] || cp "$work/out" "$KEEP"
