#!/bin/sh
# Runs grpc-go's interop client against the bundled server - every case but those that need a cloud account or ORCA - and
# the library's client against grpc-go's interop server, in plain text and over TLS; then h2spec against the server. Usage: interop.sh <folder with grpc_interop_server>. Skips aloud (exit 77) without go.
set -eu
build=${1:?usage: interop.sh <folder with grpc_interop_server>}
version=${GRPC_GO_VERSION:-latest}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trunnion/grpc-go-$version
cases="empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server
  cancel_after_begin cancel_after_first_response status_code_and_message special_status_message custom_metadata
  unimplemented_method unimplemented_service pick_first_unary rpc_soak channel_soak"

tools=${XDG_CACHE_HOME:-$HOME/.cache}/trunnion/h2spec
if [ ! -x "$cache/client" ] || [ ! -x "$cache/server" ] || [ ! -x "$tools/h2spec" ]; then
  if ! command -v go >/dev/null; then
    echo "SKIPPED: go is absent, grpc-go's interop client cannot be built" >&2
    exit 77
  fi
  mkdir -p "$cache"
  GOBIN=$cache go install "google.golang.org/grpc/interop/client@$version" "google.golang.org/grpc/interop/server@$version"
  mkdir -p "$tools"
  GOBIN=$tools go install github.com/summerwind/h2spec/cmd/h2spec@latest
fi

work=$(mktemp -d)
server=
foreign=
stop() {
  [ -z "$foreign" ] || kill "$foreign" 2>/dev/null || true
  foreign=
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

# grpc-go's server on a free port, our client's cases on it.
run_own_client() {
  port=$((20000 + $$ % 20000))
  "$cache/server" -port "$port" "$@" >"$work/foreign" 2>&1 &
  foreign=$!
  sleep 1
  if [ "$label" = tls ]; then
    "$build/grpc_interop_client" --target "127.0.0.1:$port" --ca "$work/cert.pem" --server-name localhost >"$work/own" 2>&1 ||
      failed=$((failed + $?))
  else
    "$build/grpc_interop_client" --target "127.0.0.1:$port" >"$work/own" 2>&1 || failed=$((failed + $?))
  fi
  sed "s/^ok    /ok      $label own client/;s/^FAILED/FAILED  $label own client/" "$work/own"
  kill "$foreign" && wait "$foreign" 2>/dev/null || true
  foreign=
}

# Each failure of h2spec is explained in h2spec_failures.txt, which may only shrink.
run_h2spec() {
  for run in 1 2; do
    "$tools/h2spec" -p "$port" -P / -o 2 --strict "$@" >"$work/h2spec$run" 2>&1 || true
  done
  here=$(dirname "$0")
  python3 "$here/h2spec_check.py" "$here/h2spec_failures.txt" "$work/h2spec1" "$work/h2spec2" || failed=$((failed + 1))
}

label=plain
start
run_cases
run_h2spec
stop
run_own_client
if [ -s "$work/log" ]; then cat "$work/log"; failed=$((failed + 1)); fi

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl"
label=tls
start --cert "$work/cert.pem" --key "$work/key.pem"
run_cases -use_tls -use_test_ca -ca_file "$work/cert.pem" -server_host_override localhost
run_h2spec -t -k
stop
run_own_client -use_tls -tls_cert_file "$work/cert.pem" -tls_key_file "$work/key.pem"
if [ -s "$work/log" ]; then cat "$work/log"; failed=$((failed + 1)); fi

[ "$failed" -eq 0 ] && echo "all interop cases passed"
exit "$failed"
