#!/bin/sh
# Audit before release: status 4 where a client's graph is certified unique, or more than a tenth of them come back exactly.
# usage: gate.sh [SPEC.toml [FOLDER]]; a second run goes on, or judges what is there
set -eu
spec=${1:-docs/examples/gate.toml}
out=${2:-leak}

jgleak audit "$spec" --out "$out" --resume \
  --fail-on "unique>0" --fail-on "wrong>0" --fail-on "exact.low>0.1" \
  --results "$out/results.json" --sarif "$out/jgleak.sarif"
