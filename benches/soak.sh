#!/usr/bin/env bash
# A soak test of health: the release binary probes origins that are killed, hung and made to fail at
# random, and is asked steadily. It fails if any answer has an origin that has been down for longer
# than fall x interval + timeout + 100 ms, or if a query is lost. See examples/soak/.
#
#   benches/soak.sh                  ten minutes
#   benches/soak.sh --seconds 60     … or less; other options: --help
#
# Nothing but loopback addresses is listened on, and what was started is ended.

set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --bin meridian --example soak
echo "$(date -u +%Y-%m-%dT%H:%MZ), Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"
exec "${CARGO_TARGET_DIR:-target}/release/examples/soak" "$@"
