#!/usr/bin/env bash
# What clients notice while a server is abused: 10,000 TCP connections that do nothing and a thousand
# that hold half of a message back, and a flood of malformed datagrams. Each is measured beside its
# absence in the same rounds; the medians count. The server has core 0, all that asks it core 1.
#
#   benches/siege.sh                       five rounds of 5 s
#   benches/siege.sh --rounds 3 --seconds 3 --rate 50000 --malformed 50000
#
# It fails if the 99th percentile over UDP rises by more than 20 %, memory by more than 200 MB, or if
# less than 90 % of the answers are given while the flood is on.

set -euo pipefail

rounds=5 seconds=5 rate=50000 malformed=50000 idle=10000 slow=1000
while (($#)); do
    case $1 in
        --rounds | --seconds | --rate | --malformed | --idle | --slow)
            [[ ${2-} =~ ^[1-9][0-9]*$ ]] || { sed -n '2,10p' "$0" >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        *) sed -n '2,10p' "$0" >&2; exit 2 ;;
    esac
    shift
done

fail() {
    echo "siege.sh: $*" >&2
    exit 1
}

(($(nproc) >= 2)) || fail "one core for the server and one for what asks it are needed"
cd "$(dirname "$0")/.."
# Each side has that many sockets.
ulimit -n $((idle + slow + 1000)) || fail "the limit of open files is too low: ulimit -Hn"
cargo build --release --locked --bin meridian --example workload --example flood --example siege
release=$(realpath "${CARGO_TARGET_DIR:-target}/release")

work=$(mktemp -d "${TMPDIR:-/tmp}/meridian-siege.XXXXXX")
server='' siege=''
stop() {
    local pid
    for pid in $siege $server; do
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    siege='' server=''
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

readonly port=15390
"$release/examples/workload" "$work" --port $port --meridian-only
cat >>"$work/meridian/meridian.toml" <<TEXT

[tcp]
connections = 20000
connections_per_client = 20000
idle_timeout = "1h"
TEXT

start() {
    taskset -c 0 "$release/meridian" serve --config "$work/meridian/meridian.toml" \
        >"$work/log" 2>&1 &
    server=$!
    local name subnet
    read -r name _ subnet <"$work/queries"
    for _ in {1..120}; do
        dig @127.0.0.1 -p $port "$name" A "+subnet=$subnet" +tries=1 +time=1 |
            grep -q 'status: NOERROR' && return
        kill -0 "$server" 2>/dev/null || break
        sleep 0.25
    done
    tail -n 20 "$work/log" >&2
    fail "the server does not start"
}

memory() {
    sed -n 's/^VmRSS:\s*\([0-9]*\) kB/\1/p' "/proc/$server/status"
}

flood() {
    taskset -c 1 "$release/examples/flood" --server 127.0.0.1:$port --queries "$work/queries" \
        --count 4000000000 --window 512 --rate "$rate" --json --seconds "$1"
}

siege() {
    taskset -c 1 "$release/examples/siege" --server 127.0.0.1:$port "$@" >"$work/siege" &
    siege=$!
}

# One measurement: a line of the label, answers a second, 99th percentile in µs, memory in kB.
measure() {
    local line
    line=$(flood "$seconds") || fail "$1: the generator failed, or a reply was wrong: $line"
    sed "s/.*\"rate\": \([0-9.]*\).*\"p99_us\": \([0-9.]*\).*/$1 \1 \2 $(memory)/" <<<"$line" \
        >>"$work/results"
}

median() {
    awk -v label="$1" -v column="$2" '$1 == label { print $column }' "$work/results" | sort -n |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

echo "$(date -u +%Y-%m-%dT%H:%MZ), Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"
echo "$rounds rounds of $seconds s, $rate queries a second"
for ((round = 1; round <= rounds; round++)); do
    start
    flood 1 >/dev/null || fail "the generator failed, or a reply was wrong"
    measure alone
    siege --seconds 600 connections --idle $idle --slow $slow
    until grep -q ready "$work/siege"; do
        kill -0 "$siege" 2>/dev/null || fail "$(cat "$work/siege")"
        sleep 0.25
    done
    measure connections
    kill -TERM "$siege" && wait "$siege" 2>/dev/null || true
    # Until what those connections leave is cleared away.
    sleep 2
    measure alone
    siege --seconds $((seconds + 2)) malformed --rate "$malformed"
    sleep 1
    measure malformed
    wait "$siege"
    sed 's/^/  /' "$work/siege"
    stop
done

echo
printf '%-44s %12s %10s %12s\n' '' answers/s 'p99 us' 'memory MB'
row() {
    printf '%-44s %12.0f %10.0f %12.1f\n' "$2" "$(median "$1" 2)" "$(median "$1" 3)" \
        "$(awk -v kb="$(median "$1" 4)" 'BEGIN { print kb / 1024 }')"
}
row alone 'clients alone'
row connections "and $idle idle, $slow slow connections"
row malformed "and $malformed malformed datagrams a second"
awk -v p99="$(median connections 3)" -v alone="$(median alone 3)" \
    -v kb="$(median connections 4)" -v before="$(median alone 4)" \
    -v answers="$(median malformed 2)" -v unharmed="$(median alone 2)" '
    BEGIN {
        printf "\nconnections: p99 %.2f times, memory +%.1f MB; malformed: %.3f of the answers\n",
            p99 / alone, (kb - before) / 1024, answers / unharmed
        exit p99 > 1.2 * alone || kb - before > 200 * 1024 || answers < 0.9 * unharmed
    }' || fail "out of bounds"
