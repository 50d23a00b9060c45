#!/usr/bin/python3
"""Prints the state of a host, one fact a line: files, packages, accounts, units, network.

state.py files: the files only, with the modification times of those whose content is not printed.
"""

import grp
import hashlib
import os
import pwd
import re
import stat
import subprocess
import sys

# Other file systems, the sources of the test, and logs.
SKIPPED = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/log/journal")
SKIPPED += ("/srv/repository", "/srv/sources", "/srv/manifests")

# Files whose content differs between two equal installations: random keys, times, caches and databases.
RANDOM = re.compile(
    "/etc/ssh/ssh_host_|/etc/machine-id$|/etc/ssl/(private|certs)/|/etc/ld.so.cache$|/etc/\\.updated$|/var/\\.updated$"
    "|/etc/(passwd|shadow|group|gshadow|subuid|subgid)-$|/srv/shop/source/.git/|/var/cache/|/var/log/"
    "|/var/lib/(postgresql|dpkg|apt|kilter|ucf|logrotate)/|/var/lib/systemd/(random-seed|timers/|timesync/|catalog/)"
)

# Files with an entry a line, in the order in which they were added.
UNORDERED = re.compile(
    "/etc/(hosts|passwd|shadow|group|gshadow|subuid|subgid|fstab|shells|shop/settings.d.env|ssh/sshd_config)$"
    "|/etc/systemd/journald.conf.d/size.conf$|/var/spool/cron/crontabs/|/\\.ssh/authorized_keys$|/etc/sysctl"
)

# Files with random names, or with times in their names.
UNNAMED = re.compile(
    "/var/lib/postgresql/[0-9]+/main/|/var/lib/kilter/|/srv/shop/source/.git/objects/|/etc/ssl/certs/[0-9a-f]{8}"
)

# Units that exist for one command or one boot.
TRANSIENT = re.compile(r" (run-|session-|user@|user-runtime|systemd-tmpfiles-clean\.service|\S*getty)")


def name(entries, number):
    try:
        return entries(number)[0]
    except KeyError:
        return str(number)


def content(path, status, with_times):
    """Describes the content of a regular file."""
    if RANDOM.match(path):
        return f"modified {status.st_mtime_ns}" if with_times else "any content"
    with open(path, "rb") as file:
        data = file.read()
    if UNORDERED.search(path) and not with_times:
        # crontab writes the time into the first lines.
        lines = [line for line in data.splitlines() if not line.startswith(b"# (")]
        if path in ("/etc/subuid", "/etc/subgid"):
            # useradd gives the next range to the next user.
            lines = [field for line in lines for field in line.split(b":", 1)]
        data = b"\n".join(sorted(lines))
    return hashlib.sha256(data).hexdigest()[:16]


def file(path, with_times=False):
    status = os.lstat(path)
    owner, group = name(pwd.getpwuid, status.st_uid), name(grp.getgrgid, status.st_gid)
    text = f"file {path} {stat.filemode(status.st_mode)} {owner}:{group}"
    if stat.S_ISLNK(status.st_mode):
        return f"{text} -> {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"{text} {content(path, status, with_times)}"
    return text


def files(with_times=False):
    device = os.lstat("/").st_dev
    for directory, below, names in os.walk("/"):
        below[:] = [one for one in below if os.path.join(directory, one) not in SKIPPED]
        links = [one for one in below if os.path.islink(os.path.join(directory, one))]
        other = [one for one in below if os.lstat(os.path.join(directory, one)).st_dev != device]
        below[:] = [one for one in below if one not in links and one not in other]
        for one in [*below, *links, *other, *names]:
            path = os.path.join(directory, one)
            if not UNNAMED.match(path):
                yield file(path, with_times)


def lines(kind, command):
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [f"{kind} {' '.join(line.split())}" for line in output.splitlines() if line.strip()]


def accounts():
    for line in lines("group", ["getent", "group"]):
        head, members = line.rsplit(":", 1)
        yield f"{head}:{','.join(sorted(members.split(',')))}"
    yield from lines("user", ["getent", "passwd"])


def units():
    listed = ["systemctl", "list-units", "--all", "--no-legend", "--plain", "--type=service,socket,timer,mount"]
    yield from (" ".join(line.split()[:5]) for line in lines("unit", listed))
    yield from lines("unit file", ["systemctl", "list-unit-files", "--no-legend"])


def state():
    yield from files()
    yield from lines("package", ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"])
    yield from lines("manual", ["apt-mark", "showmanual"])
    yield from accounts()
    yield from (line for line in units() if not TRANSIENT.search(line))
    yield from lines("firewall", ["nft", "--stateless", "list", "ruleset"])
    names = ["ip_local_port_range", "conf.all.log_martians"]
    for name in ("accept_redirects", "send_redirects", "accept_source_route"):
        names += [f"conf.all.{name}", f"conf.default.{name}"]
    names = [f"net.ipv4.{name}" for name in names] + ["net.ipv6.conf.all.accept_redirects"]
    yield from lines("sysctl", ["sysctl", *names])
    yield from lines("mount", ["findmnt", "--noheadings", "--output", "TARGET,FSTYPE,OPTIONS", "/srv/cache"])
    yield from lines("listens", ["ss", "--no-header", "--listening", "--tcp", "--numeric"])


if __name__ == "__main__":
    print("\n".join(sorted(files(with_times=True) if sys.argv[1:] == ["files"] else state())))
