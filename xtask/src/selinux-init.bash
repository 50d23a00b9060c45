#!/bin/bash
# Checks the type selboolean in a virtual machine that enforces SELinux. It is the first process.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mkdir -p /proc /sys /dev /run /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=0755 run /run
exec </dev/console >/dev/console 2>&1
boolean=global_ssp
# Local changes in the store of the policy, which the next boots have.
store=/var/lib/selinux/default/active/booleans.local

fail() {
    echo "checks: failed: $*"
    off
}
off() {
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}
# ends CODE COMMAND...: runs a command and fails unless it ends with this exit code.
ends() {
    local expected=$1 code=0
    shift
    echo "+ $*"
    "$@" >/run/out 2>&1 || code=$?
    cat /run/out
    [ "$code" = "$expected" ] || fail "'$*' ended with $code instead of $expected"
}
# prints TEXT: fails unless the last command has printed a text.
prints() {
    grep -qF -- "$1" /run/out || fail "it does not print: $1"
}
# declare VALUE PERSISTENT
declare_boolean() {
    printf 'resources:\n  selboolean[%s]: {value: %s, persistent: %s}\n' "$boolean" "$1" "$2" >/run/site.yaml
}

load_policy -i || fail "the policy cannot be loaded"
ends 0 getenforce
prints Enforcing
ends 0 getsebool "$boolean"
prints "$boolean --> off"
ends 0 kilter get selboolean "$boolean"
prints off

# For this boot only.
declare_boolean on false
ends 2 kilter plan /run/site.yaml
prints "value: off → on"
ends 0 getsebool "$boolean"
prints "--> off"
ends 0 kilter apply --yes /run/site.yaml
ends 0 getsebool "$boolean"
prints "--> on"
! grep -qs "$boolean" "$store" || fail "the store has the value that is for this boot only"
ends 0 kilter plan /run/site.yaml
prints "1 unchanged"
ends 0 kilter undo last
ends 0 getsebool "$boolean"
prints "--> off"

# Also for the next boots: the value is in the store of the policy.
declare_boolean on true
ends 0 kilter apply --yes /run/site.yaml
ends 0 getsebool "$boolean"
prints "--> on"
ends 0 cat "$store"
prints "$boolean=1"
ends 0 kilter apply --yes /run/site.yaml
prints "1 unchanged"
ends 0 kilter undo last
ends 0 getsebool "$boolean"
prints "--> off"
ends 0 cat "$store"
prints "$boolean=0"
echo "checks: ok"
off
