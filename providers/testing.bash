# shellcheck shell=bash
# Functions for the tests of the providers. Each test is a program that runs with the path of kilter in $KILTER, which contains the providers.
# It prints failures, and exits
# with 0 only if every check succeeds. The tests change the machine as root. They run only if the harness has put copies over its directories
# (`cargo test -p kilter --test providers`).
set -u

[ -e /etc/.kilter-test ] || { echo "not in a copy of the machine: cargo test -p kilter --test providers" >&2 && exit 1; }
[ -x "${KILTER-}" ] || { echo "KILTER has to name kilter's binary" >&2 && exit 1; }

# shellcheck disable=SC2034 # The tests use it.
providers=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d /var/tmp/kilter-test.XXXXXX)
chmod 755 "$place"
failures=0
checks=0

kilter() { "$KILTER" --state-dir "$place/state" "$@"; }

failed() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$1"
    shift
    [ $# -eq 0 ] || printf '    %s\n' "${@//$'\n'/$'\n    '}"
}

# same WHAT GOT WANTED
same() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || failed "$1" "got:    $2" "wanted: $3"
}

# holds WHAT COMMAND...: the command succeeds.
holds() {
    local what=$1 output
    shift
    checks=$((checks + 1))
    output=$("$@" 2>&1) || failed "$what" "$* exited with $?" "$output"
}

# value TYPE NAME ATTRIBUTE: prints the value that kilter reads, or `-` if there is none.
value() {
    kilter get --show-sensitive --format json -- "$1" "$2" | python3 -c '
import json, sys
value = json.load(sys.stdin)[0]["attributes"].get(sys.argv[1], "-")
print(value if isinstance(value, str) else json.dumps(value))' "$3"
}

# names TYPE: prints the names of all resources, sorted.
names() {
    kilter get "$1" --format json | python3 -c '
import json, sys
print("\n".join(sorted(one["name"] for one in json.load(sys.stdin))))'
}

# count OUTPUT KEY: prints a count of a report.
count() { python3 -c 'import json, sys; print(json.loads(sys.argv[1])["counts"][sys.argv[2]])' "$1" "$2" 2>&1; }

# changes TYPE NAME ATTRIBUTE=VALUE...: the first set changes the resource, the second finds it in sync.
changes() {
    local report errors=$place/errors
    checks=$((checks + 1))
    if ! report=$(kilter set --format json -- "$@" 2>"$errors"); then
        failed "set $*" "$report" "$(cat "$errors")"
    elif [ "$(count "$report" changed)" != 1 ]; then
        failed "set $* changes nothing" "$report"
    else
        keeps "$@"
    fi
}

# keeps TYPE NAME ATTRIBUTE=VALUE...: the resource is in sync.
keeps() {
    local report errors=$place/errors
    checks=$((checks + 1))
    report=$(kilter set --format json -- "$@" 2>"$errors") || failed "set $* again" "$report" "$(cat "$errors")"
    [ "$(count "$report" in_sync)" = 1 ] || failed "set $* is not in its state" "$report"
}

# refuses WORDS TYPE NAME ATTRIBUTE=VALUE...: the set fails, and the error contains WORDS.
refuses() {
    local words=$1 output code
    shift
    checks=$((checks + 1))
    output=$(kilter set -- "$@" 2>&1)
    code=$?
    [ "$code" = 4 ] || [ "$code" = 1 ] || failed "set $* exited with $code" "$output"
    [[ $output == *"$words"* ]] || failed "set $* does not say: $words" "$output"
}

# there PATH: prints yes if the path exists, otherwise no.
there() { if [ -e "$1" ]; then echo yes; else echo no; fi; }

# Ends a test. Every test calls it last.
finish() {
    rm -rf "$place"
    echo "$checks checks, $failures failed"
    [ "$failures" = 0 ]
    exit
}
