#!/bin/sh
# Runs grpc-go's interop client against the bundled server: every case but those that need a cloud account or ORCA, in
# plain text and over TLS. Usage: interop.sh <folder with grpc_interop_server>. Skips aloud (exit 77) without go.
set -eu
build=${1:?usage: interop.sh <folder with grpc_interop_server>}
version=${GRPC_GO_VERSION:-latest}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trunnion/grpc-go-$version
cases="empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server
  cancel_after_begin cancel_after_first_response status_code_and_message special_status_message custom_metadata
  unimplemented_method unimplemented_service pick_first_unary rpc_soak channel_soak"

if [ ! -x "$cache/client" ]; then
  if ! command -v go >/dev/null; then
    echo "SKIPPED: go is absent, grpc-go's interop client cannot be built" >&2
    exit 77
  fi
  mkdir -p "$cache"
  GOBIN=$cache go install "google.golang.org/grpc/interop/client@$version"
fi

work=$(mktemp -d)
server=
stop() {
  exec 9>&- || true # the server ends with its standard input
  [ -z "$server" ] || wait "$server" || echo "FAILED: the server ended with an error" >&2
  server=
}
trap 'stop; rm -rf "$work"' EXIT

start() {
  rm -f "$work/in" && mkfifo "$work/in"
  "$build/grpc_interop_server" "$@" <"$work/in" >"$work/out" 2>"$work/log" &
  server=$!
  exec 9>"$work/in"
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    port=$(sed -n 's/^port //p' "$work/out")
    [ -n "$port" ] && return
    sleep 0.1
  done
  echo "FAILED: the server did not start" >&2
  cat "$work/log" >&2
  exit 1
}

failed=0
run_cases() {
  for name in $cases; do
    if "$cache/client" -server_host 127.0.0.1 -server_port "$port" -test_case "$name" -soak_iterations 100 \
      -soak_num_threads 4 -soak_overall_timeout_seconds 60 "$@" >"$work/client" 2>&1; then
      echo "ok      $label $name"
    else
      echo "FAILED  $label $name"
      tail -5 "$work/client"
      failed=$((failed + 1))
    fi
  done
}

label=plain
start
run_cases
stop
if [ -s "$work/log" ]; then cat "$work/log"; failed=$((failed + 1)); fi

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl"
label=tls
start --cert "$work/cert.pem" --key "$work/key.pem"
run_cases -use_tls -use_test_ca -ca_file "$work/cert.pem" -server_host_override localhost
stop
if [ -s "$work/log" ]; then cat "$work/log"; failed=$((failed + 1)); fi

[ "$failed" -eq 0 ] && echo "all interop cases passed"
exit "$failed"
