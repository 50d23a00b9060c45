#!/bin/bash
# Installs, upgrades, removes and purges the Debian package on a booted host, which has the packages in /srv/packages. Then tries the package for rpm,
# with the rpm in /srv/repository, the archive, and the program in a root directory without a C library. Prints each fact that holds, and ends with an error at the first that does not.
set -euo pipefail

failed() {
    printf 'FAILED: %s\n' "$@" >&2
    journalctl -u kilter -n 30 --no-pager >&2
    exit 1
}

# holds FACT COMMAND...
holds() {
    local fact=$1
    shift
    "$@" >/tmp/output 2>&1 || failed "$fact" "$*: exit code $?" "$(cat /tmp/output)"
    echo "ok: $fact"
}

# fails FACT COMMAND...
fails() {
    local fact=$1
    shift
    ! "$@" >/tmp/output 2>&1 || failed "$fact" "$*: exit code 0" "$(cat /tmp/output)"
    echo "ok: $fact"
}

# becomes FACT COMMAND...: the command succeeds within 30 seconds.
becomes() {
    local fact=$1 end=$((SECONDS + 30))
    shift
    until "$@" >/tmp/output 2>&1; do
        [ "$SECONDS" -lt "$end" ] || failed "$fact" "$* for 30 s" "$(cat /tmp/output)"
        sleep 0.05
    done
    echo "ok: $fact"
}

is() { [ "$1" = "$2" ] || { echo "$1, not $2" && false; }; }
content() { is "$(cat "$1")" "$2"; }
pid() { systemctl show --value -p MainPID kilter; }

# Prints all files, but those that programs change all the time, and the records of dpkg and systemd.
snapshot() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /srv -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt \
        -o -path /var/cache -o -path /var/lib/systemd -o -path /var/tmp \) -prune -o -type d -printf '%p %M %u:%g\n' -o \
        -printf '%p %M %u:%g %s %l\n' | sort
}

# upgraded NUMBER: prints the path of a package with a higher version.
upgraded() {
    rm -rf /srv/upgrade
    dpkg-deb -R "$package" /srv/upgrade
    sed -i "s/^Version: .*/&+$1/" /srv/upgrade/DEBIAN/control
    dpkg-deb --root-owner-group -Zgzip -b /srv/upgrade "/srv/kilter-$1.deb" >/dev/null
    echo "/srv/kilter-$1.deb"
}

# The image leaves out documents.
rm -f /etc/dpkg/dpkg.cfg.d/99mmdebstrap
cd /srv/packages
holds "the checksums are right" sha256sum --quiet -c SHA256SUMS
package=$(echo /srv/packages/kilter_*.deb)
snapshot >/srv/before

holds "the package installs" dpkg -i "$package"
holds "the installed files are those of the package" dpkg -V kilter
holds "the program runs" kilter --version
fails "no package of libraries is needed" grep -q . <(dpkg-query -W -f '${Depends}' kilter)
fails "the unit is not enabled" systemctl is-enabled kilter
fails "the unit is not active" systemctl is-active kilter
holds "the unit is valid" systemd-analyze verify kilter.service
holds "the manual page is there" grep -q '^\.TH KILTER 1' <(zcat /usr/share/man/man1/kilter.1.gz)
holds "each command has a manual page" test -e /usr/share/man/man1/kilter-run.1.gz
holds "the completion of bash loads" bash -c '. /usr/share/bash-completion/completions/kilter && complete -p kilter'
holds "the completion of zsh is there" grep -q '^#compdef kilter' /usr/share/zsh/vendor-completions/_kilter
holds "the completion of fish is there" grep -q 'complete -c kilter' /usr/share/fish/vendor_completions.d/kilter.fish
holds "the schema is JSON" python3 -m json.tool /usr/share/kilter/manifest.schema.json
holds "the list of software is JSON" python3 -m json.tool /usr/share/doc/kilter/sbom.cdx.json
holds "the licences are there" test -s /usr/share/doc/kilter/LICENSE-MIT -a -s /usr/share/doc/kilter/LICENSE-APACHE
holds "the changelog is there" grep -q '^# Changes' <(zcat /usr/share/doc/kilter/changelog.gz)
holds "the manifest declares nothing" grep -q '^0 resources: nothing to do' <(kilter plan /etc/kilter/site.yaml)
sed -E 's/^#([^ ]|  )/\1/' /etc/kilter/site.yaml >/tmp/example.yaml
holds "the example in it is valid" grep -q '^1 resource: 1 to change' <(kilter plan /tmp/example.yaml)

cat >/etc/kilter/site.yaml <<'END'
resources:
  file[/etc/held]: { content: declared }
  exec[slow]: { command: [sleep, "3"] }
END
holds "the unit is enabled and starts" systemctl enable --now kilter
holds "it made the file" content /etc/held declared
echo damaged >/etc/held
becomes "it repairs damage" content /etc/held declared

before=$(pid)
holds "the package is upgraded while kilter holds the host" dpkg -i "$(upgraded 1)"
fails "the upgrade does not wait for the resources" is "$(systemctl is-active kilter)" active
echo damaged >/etc/held
becomes "kilter is active again" systemctl is-active kilter
fails "another process holds the host" is "$(pid)" "$before"
holds "it repaired the damage" content /etc/held declared
holds "the unit is still enabled" systemctl is-enabled kilter
holds "the manifest is still that of the administrator" grep -q slow /etc/kilter/site.yaml
echo damaged >/etc/held
becomes "it still repairs damage" content /etc/held declared
holds "the run reports that it holds the host" kilter status

holds "the package is removed" dpkg -r kilter
fails "the program is gone" test -e /usr/bin/kilter
fails "no process is left" pgrep -x kilter
is "$(systemctl show --value -p LoadState kilter)" not-found || failed "systemd still knows the unit"
holds "the manifest stays" test -e /etc/kilter/site.yaml
holds "the state stays" test -d /var/lib/kilter
holds "the package installs again" dpkg -i "$package"
fails "the unit is not enabled after that" systemctl is-enabled kilter
fails "and not active" systemctl is-active kilter

systemctl stop kilter
holds "an upgrade of a stopped kilter" dpkg -i "$(upgraded 2)"
fails "starts nothing" systemctl is-active kilter
systemctl enable --now kilter
holds "an active kilter is purged" dpkg -P kilter
fails "no process is left after that" pgrep -x kilter

holds "the package installs again after that" dpkg -i "$package"
cat >/etc/kilter/site.yaml <<'END'
resources:
  file[/etc/held]: { content: declared }
  package[kilter]: { ensure: absent, require: "file[/etc/held]" }
END
systemctl start kilter || true
becomes "kilter removes its own package" bash -c "! dpkg -s kilter | grep -q '^Status: install ok'"
becomes "and ends" bash -c '! pgrep -x kilter'
becomes "systemd does not keep the unit as failed" bash -c '[ "$(systemctl is-failed kilter)" = inactive ]'
holds "the rest of it is purged" dpkg -P kilter
snapshot >/srv/after
holds "only the declared file is left" content <(diff /srv/before /srv/after | grep '^[<>]' | cut -d ' ' -f 1,2) "> /etc/held"
fails "no lock is left" test -e /run/kilter-locks

# The package for rpm. Debian's rpm asks for an option, and knows no package of a C library.
rm /etc/held
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
holds "rpm is installed" bash -c 'apt-get -qq update && apt-get -qq -y --no-install-recommends install rpm'
rpm() { command rpm --force-debian --nodeps "$@"; }
of_rpm=$(echo /srv/packages/kilter-*.rpm)
holds "rpm: the package installs" rpm -i "$of_rpm"
fails "rpm: the unit is not enabled" systemctl is-enabled kilter
fails "rpm: the unit is not active" systemctl is-active kilter
echo 'resources: { "file[/etc/held]": { content: declared } }' >/etc/kilter/site.yaml
holds "rpm: the unit is enabled and starts" systemctl enable --now kilter
holds "rpm: it made the file" content /etc/held declared
before=$(pid)
holds "rpm: the package is upgraded while kilter holds the host" rpm -U --replacepkgs "$of_rpm"
becomes "rpm: another process holds the host" bash -c "[ \"\$(systemctl show --value -p MainPID kilter)\" != $before ] && systemctl is-active kilter"
echo damaged >/etc/held
becomes "rpm: it still repairs damage" content /etc/held declared
holds "rpm: the unit is still enabled" systemctl is-enabled kilter
holds "rpm: the manifest is still that of the administrator" grep -q held /etc/kilter/site.yaml
holds "rpm: the package is removed" rpm -e kilter
fails "rpm: the program is gone" test -e /usr/bin/kilter
fails "rpm: no process is left" pgrep -x kilter
fails "rpm: the unit is not enabled after that" systemctl is-enabled kilter
holds "rpm: the edited manifest is kept" test -e /etc/kilter/site.yaml.rpmsave
holds "rpm: the package installs again" rpm -i "$of_rpm"
fails "rpm: an upgrade of a stopped kilter starts nothing" bash -c "rpm --force-debian --nodeps -U --replacepkgs '$of_rpm' && systemctl is-active kilter"
cat >/etc/kilter/site.yaml <<'END'
resources:
  exec[remove]: { command: [rpm, --force-debian, --nodeps, -e, kilter], onlyif: "test -e /usr/bin/kilter" }
END
systemctl start kilter || true
becomes "rpm: kilter removes its own package" bash -c '! rpm --force-debian -q kilter'
becomes "rpm: and ends" bash -c '! pgrep -x kilter'
becomes "rpm: systemd does not keep the unit as failed" bash -c '[ "$(systemctl is-failed kilter)" = inactive ]'

holds "the archive unpacks" tar -C /usr/local --strip-components=1 -xzf "$(echo kilter-*-linux.tar.gz)"
holds "its program runs" /usr/local/bin/kilter --version
holds "its files belong to root" is "$(find /usr/local \( -name '*kilter*' -a ! -user root \) -print)" ""
systemctl daemon-reload
mkdir -p /etc/kilter
echo 'resources: { "file[/etc/held]": { content: archive } }' >/etc/kilter/site.yaml
holds "systemd finds its unit and program" systemctl start kilter
holds "that holds the file" content /etc/held archive
systemctl stop kilter

mkdir -p /srv/bare/etc
cp /usr/local/bin/kilter /srv/bare/kilter
echo 'resources: { "file[/made]": { content: alone } }' >/srv/bare/site.yaml
holds "without a C library the program runs" chroot /srv/bare /kilter --version
holds "it finds facts" chroot /srv/bare /kilter facts os
holds "it applies a manifest" chroot /srv/bare /kilter apply /site.yaml
holds "which made the file" content /srv/bare/made alone
