#!/usr/bin/env bash
# Meridian beside other authoritative servers: the same names, clients and answers for each, one
# thread each, on core 0 of this machine; the load generator is on core 1. A round has every server in
# turn, each started afresh, so that what changes on the machine meets all of them; the tables show
# medians over the rounds, of ratios too. A reflector, which sends each datagram back unread, is the limit
# that machine and system calls set; "own CPU ns" is what a server spends on an answer beside those calls
# ("-" where its processes leave the session that they are started in, as NSD's do).
#
# All have large pages for their memory, as far as they use glibc's: as packaging/meridian.service has it.
#
# First a sample of questions goes to each server by dig, and every answer must be of the pool that is
# right for the client. What the servers cannot say the same way: see examples/workload/servers.rs.
#
#   benches/peers.sh                      all servers
#   benches/peers.sh --ports 64           … and queries from 64 ports
#   benches/peers.sh --zonal              Meridian alone: zonal affinity on beside off
#   benches/peers.sh --sessions           Meridian alone: session affinity on beside off
#   benches/peers.sh --scale              Meridian alone: 10, 10,000 and 100,000 load balancers
#
# Nothing but 127.0.0.1 is listened on, and what was started is ended.

set -euo pipefail
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

usage() {
    cat <<'TEXT'
Usage: benches/peers.sh [OPTIONS]
  --rounds N     rounds of each pass [5]
  --seconds N    seconds of each measurement [4]
  --warm-up N    seconds before each measurement [1]
  --rate N       queries per second of the latency pass [50000]
  --window N     queries outstanding, over all ports [128]
  --ports N      the generator's ports [1]
  --zonal        Meridian with 3 pools of 10 origins: zonal affinity on beside off
  --sessions     Meridian with session affinity on beside off
  --scale        Meridian with 10, 10,000 and 100,000 load balancers
  --servers LIST of meridian,gdnsd,knot,powerdns,nsd,reflector [all]
  --json FILE    where a line for each measurement is added [peers.jsonl in the target folder]
TEXT
}

# The window fits into the receive buffer that Linux gives a socket which asks for none, so that a
# server without a setting for it (Knot DNS, PowerDNS) loses nothing for that.
rounds=5 seconds=4 warm_up=1 rate=50000 window=128 ports=1 variant=peers json=
servers=meridian,gdnsd,knot,powerdns,nsd,reflector
while (($#)); do
    case $1 in
        --rounds | --seconds | --warm-up | --rate | --window | --ports)
            [[ ${2-} =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
            name=${1#--}
            declare "${name/-/_}=$2"
            shift
            ;;
        --servers) servers=${2-} && shift ;;
        --json) json=${2-} && shift ;;
        --zonal) variant=zonal ;;
        --sessions) variant=sessions ;;
        --scale) variant=scale ;;
        --help) usage && exit ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done

fail() {
    echo "peers.sh: $*" >&2
    exit 1
}

(($(nproc) >= 2)) || fail "one core for the server and one for the generator are needed"
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
json=${json:-$target/peers.jsonl}
release=$target/release
work=$(mktemp -d "${TMPDIR:-/tmp}/meridian-peers.XXXXXX")
running=

# Ends the server that runs, with the processes that it started.
stop() {
    [[ $running ]] || return 0
    local group=$running
    running=
    kill -TERM -- "-$group" 2>/dev/null || true
    for _ in {1..50}; do
        kill -0 -- "-$group" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null || true
    wait "$group" 2>/dev/null || true
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- programs -------------------------------------------------------------------------------------

packages=()
needs() {
    [[ ,$servers, == *",$1,"* && $variant == peers || $1 == any ]] || return 0
    compgen -G "$2" >/dev/null || command -v "$2" >/dev/null || packages+=("$3")
}
PATH=$PATH:/usr/sbin
needs any dig bind9-dnsutils
needs any taskset util-linux
needs gdnsd gdnsd gdnsd
needs knot knotd knot
needs knot "/usr/lib/*/knot/modules-*/geoip.so" knot-module-geoip
needs powerdns pdns_server pdns-server
needs powerdns "/usr/lib/*/pdns/libgeoipbackend.so" pdns-backend-geoip
needs nsd nsd nsd
if ((${#packages[@]})); then
    # Debian's packages start their service on port 53 unless a policy says no.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"; stop; rm -rf "$work"' EXIT
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi
cargo build --release --locked --bin meridian \
    --example workload --example flood --example reflector

# --- workloads ------------------------------------------------------------------------------------

# Each entrant is LABEL SERVER FOLDER.
port=15300
entrants=()
make() {
    "$release/examples/workload" "$work/$1" --port "$port" "${@:2}"
}
case $variant in
    peers)
        make peers
        for server in ${servers//,/ }; do
            [[ $server =~ ^(meridian|gdnsd|knot|powerdns|nsd|reflector)$ ]] ||
                fail "there is no server $server"
            entrants+=("$server $server peers")
        done
        ;;
    zonal)
        for affinity in off on; do
            make "zonal-$affinity" --meridian-only --origins 10 --zonal "$affinity"
            entrants+=("zonal-$affinity meridian zonal-$affinity")
        done
        ;;
    sessions)
        # Nearly every query begins a session; then, of a hundred thousand pairs of a name and a
        # subnet, nearly every query comes back to one.
        for clients in new returning; do
            few=()
            [[ $clients == new ]] || few=(--names 100 --subnets 1000)
            make "$clients-off" --meridian-only "${few[@]}"
            make "$clients-on" --meridian-only --sessions "${few[@]}"
            for affinity in off on; do
                entrants+=("$clients-$affinity meridian $clients-$affinity")
            done
        done
        ;;
    scale)
        for names in 10 10000 100000; do
            make "scale-$names" --meridian-only --names "$names"
            entrants+=("scale-$names meridian scale-$names")
        done
        ;;
esac

# --- servers --------------------------------------------------------------------------------------

at() {
    case $1 in
        meridian) echo $port ;;
        gdnsd) echo $((port + 1)) ;;
        knot) echo $((port + 2)) ;;
        powerdns) echo $((port + 3)) ;;
        nsd) echo $((port + 4)) ;;
        reflector) echo $((port + 5)) ;;
    esac
}

# Starts a server, and waits until it answers.
start() {
    local server=$1 folder=$work/$2 command
    case $server in
        meridian) command=("$release/meridian" serve --config "$folder/meridian/meridian.toml") ;;
        gdnsd) command=(gdnsd -c "$folder/gdnsd" start) ;;
        knot) command=(knotd -c "$folder/knot/knot.conf") ;;
        powerdns) command=(pdns_server "--config-dir=$folder/powerdns") ;;
        nsd) command=(nsd -d -c "$folder/nsd/nsd.conf") ;;
        reflector) command=("$release/examples/reflector" --listen "127.0.0.1:$(at reflector)") ;;
    esac
    setsid taskset -c 0 "${command[@]}" >"$work/log" 2>&1 &
    running=$!
    local name subnet
    read -r name _ subnet <"$folder/queries"
    for _ in {1..120}; do
        ask "$server" "$name" "+subnet=$subnet" +time=1 | grep -q 'status: NOERROR' && return
        kill -0 "$running" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 20 "$work/log" >&2
    fail "$server does not answer"
}

ask() {
    dig "@127.0.0.1" -p "$(at "$1")" +tries=1 +nocookie +norecurse "${@:2}" A
}

# Asks the sample's questions: each answer is one of the pool's addresses (NSD's is the static one).
check() {
    local server=$1 folder=$work/$2 name subnet static pool answer questions=0
    [[ $server != reflector ]] || return 0
    while read -r name subnet static pool; do
        [[ $server == nsd ]] && pool=$static
        answer=$(ask "$server" "$name" "+subnet=$subnet" +short)
        [[ $answer && " $pool " == *" $answer "* ]] ||
            fail "$server answers $name for $subnet with \"$answer\", not one of $pool"
        questions=$((questions + 1))
    done < <(head -n 50 "$folder/expected")
    ((questions > 0)) || fail "there are no questions to check"
}

# --- measurements ---------------------------------------------------------------------------------

flood() {
    taskset -c 1 "$release/examples/flood" --server "127.0.0.1:$(at "$1")" \
        --queries "$work/$2/queries" --count 4000000000 --window "$window" --ports "$ports" \
        --json "${@:3}"
}

# The CPU time of what was started and its children: seconds outside the system and in it.
cpu() {
    local id
    for id in $(pgrep -s "$running"); do cat "/proc/$id/stat" 2>/dev/null; done |
        awk -v hz="$(getconf CLK_TCK)" '{ u += $14; s += $15 } END { print u / hz, s / hz }'
}

# A number in a line of JSON.
field() {
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p"
}

# Measures an entrant: one line in $work/results and in the file of results.
measure() {
    local pass=$1 round=$2 label=$3 server=$4 folder=$5 line before used
    start "$server" "$folder"
    [[ $pass == full && $round == 1 ]] && check "$server" "$folder"
    flood "$server" "$folder" --seconds "$warm_up" "${@:6}" >/dev/null ||
        fail "$label: the generator failed, or a reply was wrong"
    before=$(cpu)
    line=$(flood "$server" "$folder" --seconds "$seconds" "${@:6}") ||
        fail "$label: the generator failed, or a reply was wrong: $line"
    used=$(awk -v a="$before" -v b="$(cpu)" -v n="$(field answered <<<"$line")" \
        'BEGIN { split(a, x); split(b, y); f = 1e9 / (n > 0 ? n : 1)
                 printf "\"user_ns\": %.0f, \"system_ns\": %.0f", (y[1] - x[1]) * f, (y[2] - x[2]) * f }')
    stop
    line="{\"variant\": \"$variant\", \"ports\": $ports, \"pass\": \"$pass\", \"round\": $round, \
\"server\": \"$label\", $used, ${line#\{}"
    echo "$line" >>"$work/results"
    echo "$line" >>"$json"
}

# A field of an entrant in each round.
rounds_of() {
    grep "\"pass\": \"$1\".*\"server\": \"$2\"" "$work/results" | field "$3"
}

middle() {
    sort -n |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# The median of a field over the rounds of an entrant.
median() {
    rounds_of "$@" | middle
}

model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
date=$(date -u +%Y-%m-%dT%H:%MZ)
echo "$date, $model, Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"
echo "$rounds rounds of $seconds s, window $window, ports $ports"
printf '{"date": "%s", "cpu": "%s", "kernel": "%s", "rounds": %s, "seconds": %s, "window": %s}\n' \
    "$date" "$model" "$(uname -r)" "$rounds" "$seconds" "$window" >>"$json"

for ((round = 1; round <= rounds; round++)); do
    for entrant in "${entrants[@]}"; do
        # shellcheck disable=SC2086 # three words
        measure full "$round" $entrant
    done
done

# The latency pass is of pairs, in turn first and second.
paired=()
for entrant in "${entrants[@]}"; do
    [[ $variant != peers || $entrant =~ ^(meridian|gdnsd)\  ]] && paired+=("$entrant")
done
for ((round = 1; round <= rounds; round++)); do
    order=("${paired[@]}")
    ((round % 2)) || mapfile -t order < <(printf '%s\n' "${paired[@]}" | tac)
    for entrant in "${order[@]}"; do
        # shellcheck disable=SC2086 # three words
        measure paced "$round" $entrant --rate "$rate"
    done
done

# --- tables ---------------------------------------------------------------------------------------

# How many times as much as another an entrant answers: the median over the rounds, each of which is
# compared in itself. A round meets one state of the machine, and two rounds may meet different ones.
ratio() {
    [[ $2 && " ${entrants[*]} " == *" $2 "* ]] || { echo -; return; }
    paste <(rounds_of full "$1" rate) <(rounds_of full "$2" rate) |
        awk '$2 > 0 { printf "%.4f\n", $1 / $2 }' | middle | xargs printf '%.2f'
}

# What the ratios are to: gdnsd and the reflector, or the first entrant of a variant.
one=gdnsd other=reflector
[[ $variant == peers ]] || read -r one _ <<<"${entrants[0]}"
[[ $variant == peers ]] || other=

echo
echo "As many as it answers:"
format='%-14s %12s %14s %14s %9s %7s %12s\n'
# shellcheck disable=SC2059 # the format is above
printf "$format" server answers/s "/ $one" "/ ${other:--}" "loss %" wrong "own CPU ns"
for entrant in "${entrants[@]}"; do
    read -r label _ <<<"$entrant"
    answers=$(median full "$label" rate)
    loss=$(awk -v l="$(median full "$label" lost)" -v s="$(median full "$label" sent)" \
        'BEGIN { printf "%.3f", 100 * l / s }')
    # shellcheck disable=SC2059 # the format is above
    printf "$format" "$label" "$answers" "$(ratio "$label" "$one")" "$(ratio "$label" "$other")" \
        "$loss" "$(median full "$label" wrong)" "$(median full "$label" user_ns | sed 's/^0$/-/')"
done
((${#paired[@]})) || exit 0
echo
echo "At $rate queries a second:"
format='%-14s %12s %10s %10s %10s\n'
# shellcheck disable=SC2059 # the format is above
printf "$format" server answers/s "p50 us" "p99 us" lost
for entrant in "${paired[@]}"; do
    read -r label _ <<<"$entrant"
    # shellcheck disable=SC2059 # the format is above
    printf "$format" "$label" "$(median paced "$label" rate)" "$(median paced "$label" p50_us)" \
        "$(median paced "$label" p99_us)" "$(median paced "$label" lost)"
done
echo
echo "Each measurement: $json"
