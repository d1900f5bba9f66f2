#!/usr/bin/env bash
# What probing costs: a server monitors 10,000 loopback addresses (127.x.y.z) at a 10 s interval, by
# tcp, http and https in turn, and the CPU time of its threads named "prober" and "health" is measured. One nginx
# accepts for all of the addresses. The server has core 0, nginx core 1.
#
#   benches/probes.sh                       all three, 30 s each
#   benches/probes.sh --types https         one of them
#   benches/probes.sh --seconds 60 --addresses 2000 --interval 2
#   benches/probes.sh --program PATH        that server, instead of the release binary
#
# It fails if tcp or http takes 20 % of a core or more. Ports are taken on 0.0.0.0; what was started is
# ended.

set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: benches/probes.sh [OPTIONS]
  --types LIST      of tcp,http,https [all]
  --seconds N       seconds of each measurement [30]
  --addresses N     monitored addresses, 1000 at the least [10000]
  --interval N      seconds between two probes of an address [10]
  --program PATH    the server [it is built]
  --logs DIR        where the server's logs are kept
TEXT
}

types=tcp,http,https seconds=30 addresses=10000 interval=10 program= keep=
while (($#)); do
    case $1 in
        --seconds | --addresses | --interval)
            [[ ${2-} =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        --types) types=${2-} && shift ;;
        --logs) keep=$(realpath "${2-}") && shift ;;
        --program) program=$(realpath "${2-}") && shift ;;
        --help) usage && exit ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
((addresses >= 1000)) || { usage >&2; exit 2; }

fail() {
    echo "probes.sh: $*" >&2
    exit 1
}

(($(nproc) >= 2)) || fail "one core for the server and one for what it probes are needed"
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin
for tool in nginx openssl curl taskset; do
    command -v "$tool" >/dev/null || fail "$tool is missing (Debian: nginx openssl curl util-linux)"
done
if [[ ! $program ]]; then
    cargo build --release --locked --bin meridian
    program=$(realpath "${CARGO_TARGET_DIR:-target}/release/meridian")
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/meridian-probes.XXXXXX")
nginx='' server=''
stop() {
    local pid
    for pid in $server $nginx; do
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- what is probed -------------------------------------------------------------------------------

readonly plain=18801 secure=18802 state=18803 dns=18853
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -subj /CN=origin.test -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
cat >"$work/nginx.conf" <<TEXT
daemon off;
master_process off;
pid $work/pid;
error_log $work/nginx.log;
worker_rlimit_nofile 32768;
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_timeout 0;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    ssl_certificate $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    ssl_session_cache shared:probes:16m;
    server { listen 0.0.0.0:$plain backlog=16384; location / { return 200 "ok"; } }
    server { listen 0.0.0.0:$secure ssl backlog=16384; location / { return 200 "ok"; } }
    server { listen 127.0.0.1:$state; location / { stub_status; } }
}
TEXT
ulimit -n "$(ulimit -H -n)"
taskset -c 1 nginx -e "$work/nginx.log" -c "$work/nginx.conf" &
nginx=$!
# How many connections were accepted so far.
accepted() {
    curl -fsS "http://127.0.0.1:$state/" | awk 'NR == 3 { print $1 }'
}
for _ in {1..50}; do
    curl -fs "http://127.0.0.1:$state/" >/dev/null && break
    kill -0 "$nginx" 2>/dev/null || fail "nginx does not run: $(tail -n 3 "$work/nginx.log")"
    sleep 0.1
done

# --- the server -----------------------------------------------------------------------------------

# Writes the server's files for a type of monitor: pools of up to 1000 origins.
configure() {
    local type=$1 port=$plain more=
    [[ $type == https ]] && port=$secure more='verify_tls = false'
    rm -rf "$work/site"
    mkdir -p "$work/site/zones"
    printf '[server]\nlisten = ["127.0.0.1:%s"]\nstartup_wait = "10s"\n' $dns \
        >"$work/site/meridian.toml"
    {
        printf 'zone = "probes.test"\n[[records]]\nname = "@"\ntype = "NS"\ndata = ["ns1"]\n'
        printf '[[records]]\nname = "ns1"\ntype = "A"\ndata = ["192.0.2.53"]\n'
        printf '[monitors.m]\ntype = "%s"\nport = %s\ninterval = "%ss"\n%s\n' \
            "$type" "$port" "$interval" "$more"
        awk -v count="$addresses" 'BEGIN {
            for (n = 0; n < count; n++) {
                pool = int(n / 1000)
                if (n % 1000 == 0) {
                    if (n) print "]"
                    printf "[pools.p%d]\nmonitor = \"m\"\norigins = [\n", pool
                }
                address = sprintf("127.%d.%d.%d", 40 + pool, int(n % 1000 / 250), 1 + n % 250)
                printf "{ name = \"o%d\", address = \"%s\" },\n", n, address
            }
            print "]"
            for (n = 0; n <= pool; n++)
                printf "[load_balancers.www%d]\npools = [\"p%d\"]\n", n, n
        }'
    } >"$work/site/zones/probes.test.toml"
}

# The CPU time of the server's threads in ticks: those named "prober" and "health", and all.
ticks() {
    cat /proc/"$server"/task/*/stat | awk '{
        name = $0; sub(/^[^(]*\(/, "", name); sub(/\)[^)]*$/, "", name)
        rest = $0; sub(/^.*\) /, "", rest); split(rest, field, " ")
        all += field[12] + field[13]
        if (name ~ /^(prober|health)$/) { prober += field[12] + field[13]; threads++ }
    } END { print prober + 0, all + 0, threads + 0 }'
}

unhealthy() {
    grep -c '"to":"unhealthy"' "$work/log" || true
}

hertz=$(getconf CLK_TCK)
bad=
echo "$(date -u +%Y-%m-%dT%H:%MZ), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
    "Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"
echo "$addresses addresses, interval $interval s, $seconds s each"
format='%-7s %10s %16s %16s %14s %12s\n'
# shellcheck disable=SC2059 # the format is above
printf "$format" type probes/s 'prober % of core' 'server % of core' 'down at start' 'down later'
for type in ${types//,/ }; do
    [[ $type =~ ^(tcp|http|https)$ ]] || fail "there is no type $type here"
    configure "$type"
    (cd "$work/site" && exec taskset -c 0 "$program" serve) >/dev/null 2>"$work/log" &
    server=$!
    for _ in {1..300}; do
        grep -q '"message":"ready"' "$work/log" && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    grep -q '"message":"ready"' "$work/log" || fail "it is not ready: $(tail -n 3 "$work/log")"
    # The first round is at once; the second has its places in the interval.
    first=$(unhealthy)
    sleep $((interval + 1))
    read -r prober_before all_before threads <<<"$(ticks)"
    accepted_before=$(accepted) unhealthy_before=$(unhealthy) begin=$EPOCHREALTIME
    sleep "$seconds"
    read -r prober all threads <<<"$(ticks)"
    ((threads)) || fail "the server has no thread named prober"
    elapsed=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
    percent() {
        awk -v t="$1" -v hz="$hertz" -v s="$elapsed" 'BEGIN { printf "%.2f", 100 * t / hz / s }'
    }
    rate=$(awk -v n="$(($(accepted) - accepted_before))" -v s="$elapsed" \
        'BEGIN { printf "%.0f", n / s }')
    cost=$(percent $((prober - prober_before)))
    # shellcheck disable=SC2059 # the format is above
    printf "$format" "$type" "$rate" "$cost" "$(percent $((all - all_before)))" "$first" \
        $(($(unhealthy) - unhealthy_before))
    # A figure of a prober that does not keep up would be too good.
    awk -v r="$rate" -v n="$addresses" -v i="$interval" 'BEGIN { exit !(r < 0.95 * n / i) }' &&
        bad+=" $type: fewer probes than $((addresses / interval))/s;"
    [[ $type != https ]] && awk -v c="$cost" 'BEGIN { exit !(c >= 20) }' &&
        bad+=" $type: 20 % of a core or more;"
    [[ ! $keep ]] || cp "$work/log" "$keep/probes-$type.log"
    kill -TERM "$server" && wait "$server" || true
    server=''
done
[[ ! $bad ]] || fail "$bad"
