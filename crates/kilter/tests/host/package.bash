#!/bin/bash
# Packages by dpkg and apt, with a local repository and without a network.
# shellcheck source-path=SCRIPTDIR/../../../../providers source=testing.bash
. "${0%/*}/testing.bash"

# package NAME VERSION [FIELD]: puts a package into the repository.
package() {
    local root=$place/build/$1-$2
    mkdir -p "$root/DEBIAN" "$root/etc" "$root/usr/share/$1" "$place/repository"
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Nobody <nobody@kilter.test>\nDescription: A test\n%s' \
        "$1" "$2" "${3:+$3$'\n'}" >"$root/DEBIAN/control"
    echo "$2" >"$root/usr/share/$1/version"
    echo "of the package" >"$root/etc/$1.conf"
    echo "/etc/$1.conf" >"$root/DEBIAN/conffiles"
    dpkg-deb --root-owner-group -b "$root" "$place/repository" >/dev/null
}

publish() {
    local file
    for file in "$place"/repository/*.deb; do
        dpkg-deb -f "$file"
        printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${file##*/}" "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d ' ' -f 1)"
    done >"$place/repository/Packages"
    apt-get -q update >"$place/update" 2>&1 || failed "the repository is read" "$(cat "$place/update")"
}

# latest NAME: prints the lazy attribute `latest`.
latest() {
    kilter get --format json --attribute latest -- package "$1" | python3 -c '
import json, sys
print(json.dumps(json.load(sys.stdin)[0]["attributes"].get("latest", "-")))'
}

status() { dpkg-query -W -f '${db:Status-Abbrev}${Version}' "$1" 2>/dev/null; }

rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /var/lib/apt/lists/*
mkdir -p /var/lib/apt/lists/partial
echo "deb [trusted=yes] file:$place/repository ./" >/etc/apt/sources.list
package kilter-tool 1.0
package kilter-tool 1:0.5~rc1
package kilter-needs 1.0 "Depends: kilter-tool"
package kilter-rival 1.0 "Conflicts: kilter-tool"
package kilter-lost 1.0 "Depends: kilter-nowhere"
package kilter-tool-extra 1.0 "Provides: kilter-service"
package kilter-ghost 1.0
package kilter-haunted 1.0 "Depends: kilter-ghost+, kilter-tool-extra-"
package kilter-pinned 1.0
printf 'Package: kilter-pinned\nPin: version *\nPin-Priority: -1\n' >/etc/apt/preferences.d/kilter
package kilter-c++ 1.0+
package kilter-c+ 1.0
package kilter-c 1.0
publish

# Reading.
same "the list is dpkg's" "$(names package)" \
    "$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | LC_ALL=C.UTF-8 sort)"
same "so are the versions" \
    "$(kilter get package --format json | python3 -c '
import json, sys
for one in json.load(sys.stdin):
    print(one["name"], one["attributes"]["version"], one["attributes"]["architecture"])' | LC_ALL=C.UTF-8 sort)" \
    "$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version} ${Architecture}\n' | sed -n 's/^installed //p' | LC_ALL=C.UTF-8 sort)"
version=$(dpkg-query -W -f '${Version}' bash)
architecture=$(dpkg --print-architecture)
same "a package is read" "$(value package bash version) $(value package bash ensure)" "$version present"
same "its architecture is told" "$(value package bash architecture)" "$architecture"
same "a name may have an architecture" "$(value package "bash:$architecture" version)" "$version"
same "or another one" "$(value package bash:s390x ensure)" absent
libc=$(dpkg-query -W -f '${Version}' "libc6:$architecture")
same "a library is found by both of its names" "$(value package libc6 version) $(value package "libc6:$architecture" version)" "$libc $libc"
same "a part of a name is not the name" "$(value package bas ensure)" absent
same "many are read at once" "$(kilter get package bash dpkg coreutils apt nosuch "libc6:$architecture" --format json | grep -c '"exists": true')" 5
refuses "expects a match for" package 'bas*' ensure=present
refuses "expects a match for" package 'bash=1' ensure=present

# If caches are missing or outdated, a read works without them and tries to write nothing.
sleep 0.01
touch /var/lib/dpkg/status
same "a reader writes no new cache" "$(kilter get package bash 2>&1 >/dev/null)" ""
touch -d tomorrow /etc/apt/sources.list
same "nor one of what can be had" "$(kilter get package bash 2>&1 >/dev/null)" ""
touch /etc/apt/sources.list
apt-get clean
same "nor one that is gone" "$(kilter get package bash 2>&1 >/dev/null)" ""
same "there is none" "$(there /var/cache/apt/pkgcache.bin)" no

# Installing, in versions.
changes package kilter-tool version=1.0
same "it is there in its version" "$(status kilter-tool)" "ii 1.0"
same "there is a newer one" "$(latest kilter-tool)" false
keeps package kilter-tool ensure=present
changes package kilter-tool latest=true
refuses "to have an old version" package kilter-tool latest=false
same "the newest is that of the epoch" "$(status kilter-tool)" "ii 1:0.5~rc1"
changes package kilter-tool version=1.0
same "it goes back to an old version" "$(status kilter-tool)" "ii 1.0"
touch /var/lib/dpkg/status
same "apt's caches may be older than what dpkg knows" "$(latest kilter-tool)" false
refuses "apt has no version \`9\` of kilter-tool, but 1:0.5~rc1, 1.0" package kilter-tool version=9
same "another whose name begins the same is left alone" "$(status kilter-tool-extra)" ""

# Edited configuration files stay. A removed package leaves its configuration unless it is purged.
echo edited >/etc/kilter-tool.conf
changes package kilter-tool latest=true
same "an edited file stays" "$(cat /etc/kilter-tool.conf)" edited
changes package kilter-tool ensure=absent
same "configuration files are left" "$(status kilter-tool)$(cat /etc/kilter-tool.conf)" "rc 1:0.5~rc1edited"
same "what is left is not listed" "$(names package | grep -c '^kilter-tool$')" 0
changes package kilter-tool ensure=present
changes package kilter-tool ensure=absent
changes package kilter-tool ensure=purged
same "nothing is left" "$(there /etc/kilter-tool.conf) $(value package kilter-tool ensure)" "no absent"

# Changes that affect other packages.
changes package kilter-needs ensure=present
same "it brings what it needs" "$(status kilter-tool)" "ii 1:0.5~rc1"
refuses "Packages need to be removed" package kilter-rival ensure=present
same "nothing is removed to install another" "$(status kilter-tool)$(status kilter-rival)" "ii 1:0.5~rc1"
refuses "kilter-nowhere" package kilter-lost ensure=present
refuses "apt has no package \`kilter-nosuch\` to install" package kilter-nosuch ensure=present
refuses "ssential" package ncurses-bin ensure=absent
same "what the machine needs stays" "$(value package ncurses-bin ensure)" present

# Names that apt would read as a pattern, an order or another package.
before=$(dpkg-query -W)
for name in 'kilter-to.l' 'kilter.tool' kilter-tool-extra+ kilter-tool-extra- kilter-tool+ kilter-ghost+ kilter-pinned; do
    refuses "apt has no package \`$name\` to install" package "$name" ensure=present
done
refuses "takes Pattern" package kilter-tool version=1.0-
for version in 1.0+ 9; do
    refuses "apt has no version \`$version\` of kilter-tool" package kilter-tool "version=$version"
done
refuses "is no architecture" package libc6:all ensure=present
refuses "expects a match for" package kilter-tool/stable ensure=present
for name in kilter-tool- kilter-tool+ 'kilter-to.l' kilter-ghost+; do keeps package "$name" ensure=absent; done
same "nothing else is installed, nothing is removed" "$(diff <(dpkg-query -W) - <<<"$before")" ""
changes package kilter-c++ ensure=present
same "a name may end like an order" "$(status kilter-c++)$(status kilter-c)" "ii 1.0+"
changes package kilter-c++ ensure=purged

# A virtual package.
changes package kilter-service ensure=present
same "the only package that provides it is installed" "$(status kilter-tool-extra)" "ii 1.0"
same "it names that one" "$(value package kilter-service provided_by)" '["kilter-tool-extra"]'
keeps package kilter-service ensure=absent
package kilter-other 1.0 "Provides: kilter-service"
publish
changes package kilter-tool-extra ensure=purged
refuses "declare one of the packages that provide it: " package kilter-service ensure=present

# Packages on hold.
changes package kilter-needs ensure=absent
apt-mark hold kilter-tool >/dev/null
same "a hold is exported for Puppet" "$(kilter get package kilter-tool --format puppet | grep -o "mark .*")" "mark   => 'hold',"
same "a hold is read" "$(value package kilter-tool mark) $(value package kilter-tool ensure)" "hold present"
refuses "kilter-tool is on hold at 1:0.5~rc1" package kilter-tool ensure=absent
refuses "is on hold" package kilter-tool version=1.0
same "it is as it was" "$(status kilter-tool)" "hi 1:0.5~rc1"
changes package kilter-tool ensure=1.0 mark=hold
same "a declared hold gives way to its own resource" "$(status kilter-tool)" "hi 1.0"
changes package kilter-tool mark=none
changes package kilter-tool ensure=held
same "Puppet's word sets the mark" "$(status kilter-tool)" "hi 1.0"
changes package kilter-tool mark=none
changes package kilter-tool ensure=absent

# A batch is one transaction of apt-get, with removals.
transactions() { grep -c '^Commandline: .*apt-get' /var/log/apt/history.log; }
package kilter-back 1.0
publish
changes package kilter-ghost ensure=present
before=$(transactions)
cat >"$place/batch.yaml" <<'END'
resources:
  package[kilter-tool]: { ensure: latest }
  package[kilter-c]: {}
  package[kilter-back]: { ensure: "1.0" }
  package[kilter-ghost]: { ensure: absent }
END
holds "a batch is applied" kilter apply "$place/batch.yaml"
same "in one transaction" "$(($(transactions) - before))" 1
same "with all packages" "$(status kilter-tool) $(status kilter-c) $(status kilter-back) $(status kilter-ghost)" \
    "ii 1:0.5~rc1 ii 1.0 ii 1.0 rc 1.0"
same "a second pass changes nothing" "$(kilter apply "$place/batch.yaml" | grep -c '4 unchanged')" 1
cat >"$place/mixed.yaml" <<'END'
resources:
  package[kilter-lost]: {}
  package[kilter-ghost]: {}
END
kilter apply "$place/mixed.yaml" >"$place/mixed" 2>&1
same "a package that fails stops no other" "$(status kilter-ghost) $(grep -c 'kilter-nowhere' "$place/mixed")" "ii 1.0 1"
echo 'resources: { "package[kilter-nosuch]": {} }' >"$place/nosuch.yaml"
same "a plan knows that apt has no package" "$(kilter plan "$place/nosuch.yaml" 2>&1 | grep -c 'apt has no package')" 1

# A package file.
mkdir -p "$place/files"
package kilter-file 3.0
mv "$place"/repository/kilter-file_* "$place/files/file.deb"
changes package kilter-file "source=$place/files/file.deb"
same "it is installed from its file" "$(status kilter-file)" "ii 3.0"
changes package kilter-file ensure=purged
chmod 666 "$place/files/file.deb"
refuses "can be written by everybody" package kilter-file "source=$place/files/file.deb"
chmod 644 "$place/files/file.deb"
refuses "is the package \`kilter-file\`, not \`kilter-c\`" package kilter-c version=9 "source=$place/files/file.deb"

# Old package lists.
package kilter-late 1.0
mkdir "$place/second"
mv "$place"/repository/kilter-late_* "$place/second/late.deb"
file=$place/second/late.deb
{ dpkg-deb -f "$file" && printf 'Filename: ./late.deb\nSize: %s\nSHA256: %s\n\n' "$(stat -c %s "$file")" \
    "$(sha256sum <"$file" | cut -d ' ' -f 1)"; } >"$place/second/Packages"
echo "deb [trusted=yes] file:$place/second ./" >/etc/apt/sources.list.d/second.list
refuses "apt has no package" package kilter-late refresh_lists=1d
changes package kilter-late refresh_lists=0s
same "it is in the new lists" "$(status kilter-late)" "ii 1.0"

# hold_lock SECONDS: another program holds the lock.
hold_lock() {
    python3 -c '
import fcntl, sys, time
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(float(sys.argv[1]))' "$1" >"$place/lock" &
    until grep -q locked "$place/lock"; do sleep 0.1; done
}
hold_lock 3
kilter -v set package kilter-late ensure=purged >"$place/waited" 2>&1
same "kilter waits for the lock and names its holder" \
    "$(grep -c 'waits up to 600 s for the lock of dpkg, which python3 (process ' "$place/waited")$(status kilter-late)" 1

# apt-mark does not wait by itself.
hold_lock 3
holds "a mark waits for the lock too" kilter set package kilter-c mark=hold
same "the mark is set" "$(status kilter-c)" "hi 1.0"

# `kilter run` repairs packages after dpkg has replaced its database. apt-get holds the lock until its hooks have ended. The
# hook here ends when kilter waits for the lock.
# eventually WHAT NAME STATUS
eventually() {
    local tries=300
    checks=$((checks + 1))
    until [ "$(status "$2")" = "$3" ]; do
        ((tries--)) || { failed "$1" "$(cat "$place/run")" && return; }
        sleep 0.1
    done
}
# run MANIFEST: starts kilter, without the function, because a signal to its process would not reach kilter.
run() {
    echo "$1" >"$place/run.yaml"
    "$KILTER" --state-dir "$place/state" -v run "$place/run.yaml" >"$place/run" 2>&1 &
    running=$!
}
stop() {
    kill -INT "$running"
    wait "$running"
}
# by_hand ARGUMENT...: calls apt-get, whose hook waits for kilter.
by_hand() {
    cat >"$place/hook.conf" <<END
DPkg::Post-Invoke { "for try in \$(seq 100); do grep -q 'waits up to' $place/run && exit 0; sleep 0.1; done; exit 1"; };
END
    holds "kilter waits while apt-get holds the lock" \
        env "APT_CONFIG=$place/hook.conf" apt-get -q -y -o DPkg::Lock::Timeout=60 "$@"
}
package kilter-kept 1.0
publish
run 'resources: { "package[kilter-kept]": {} }'
eventually "a missing package is installed" kilter-kept "ii 1.0"
by_hand remove kilter-kept
eventually "a removed package is installed again" kilter-kept "ii 1.0"
stop
same "it waits once, for apt-get, and nothing fails" \
    "$(grep -c 'waits up to 600 s for the lock of dpkg, which apt-get' "$place/run") $(grep -ci fail "$place/run")" "1 0"
same "the log has no progress of dpkg" "$(grep -c 'Reading database .*%' "$place/run")" 0
run 'resources: { "package[kilter-kept]": { ensure: absent } }'
eventually "an unwanted package is removed" kilter-kept "rc 1.0"
by_hand install kilter-kept
eventually "an installed package is removed again" kilter-kept "rc 1.0"
stop
same "nothing fails here either" "$(grep -ci fail "$place/run")" 0
run 'resources: { "package[kilter-kept]": { ensure: held } }'
eventually "a package is put on hold" kilter-kept "hi 1.0"
by_hand --allow-change-held-packages purge kilter-kept
eventually "it is on hold after its repair" kilter-kept "hi 1.0"
stop
same "the mark does not fail" "$(grep -ci fail "$place/run")" 0

# A pin that prefers an older version than the installed one.
package kilter-back 2.0
publish
changes package kilter-back version=2.0
printf 'Package: kilter-back\nPin: version 1.0\nPin-Priority: 1001\n' >/etc/apt/preferences.d/kilter-back
same "apt would go back" "$(apt-cache policy kilter-back | grep -c 'Candidate: 1.0$')" 1
keeps package kilter-back latest=true
same "the newest is not to go back" "$(status kilter-back)" "ii 2.0"
changes package kilter-back version=1.0
same "but where it is said" "$(status kilter-back)" "ii 1.0"
keeps package kilter-back latest=true
package kilter-back 1.5
publish
sed -i 's/version 1.0/version 1.5/' /etc/apt/preferences.d/kilter-back
same "one that the pin prefers is newer" "$(latest kilter-back)" false
changes package kilter-back latest=true
same "and not the newest of all" "$(status kilter-back)" "ii 1.5"
rm /etc/apt/preferences.d/kilter-back

# A half-installed package: its script fails at first and succeeds later.
root=$place/build/kilter-broken-1.0
package kilter-broken 1.0
printf '#!/bin/sh\n[ -e /etc/kilter-broken-may ] || { echo "it may not" >&2; exit 1; }\n' >"$root/DEBIAN/postinst"
chmod 755 "$root/DEBIAN/postinst"
dpkg-deb --root-owner-group -b "$root" "$place/repository" >/dev/null
publish
refuses "kilter-broken" package kilter-broken ensure=present
same "it is told" "$(value package kilter-broken ensure)" broken
touch /etc/kilter-broken-may
changes package kilter-broken ensure=present
same "it is whole" "$(status kilter-broken)" "ii 1.0"

# If a half-installed package is newer than the version of a pin, the installed version is completed.
rm /etc/kilter-broken-may
changes package kilter-broken ensure=absent
refuses "kilter-broken" package kilter-broken ensure=present
package kilter-broken 0.9
publish
printf 'Package: kilter-broken\nPin: version 0.9\nPin-Priority: 1001\n' >/etc/apt/preferences.d/kilter-broken
touch /etc/kilter-broken-may
changes package kilter-broken ensure=present
same "it has not gone back" "$(status kilter-broken)" "ii 1.0"

# pip needs only Python. It has other packages, so only resources that name it use it.
mv /usr/bin/apt-get "$place/apt-get"
refuses "the provider \`apt\` of package is not suitable here: there is no command apt-get" package kilter-tool ensure=present
mv "$place/apt-get" /usr/bin/apt-get
finish
