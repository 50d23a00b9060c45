"""Damages a host 30 times and repairs each damage by plan and apply. Then damages it again under `kilter run`, and prints the time of each repair as a table.

A repair counts when its check succeeds. The arguments are those of `kilter run`."""

import json
import os
import re
import subprocess
import sys
import time

TIMEOUT = 120
LANGUAGES = "file[/etc/shop/languages] " + " ".join(f"file[/etc/shop/languages/{word}.conf]" for word in "de en es fr it nl pl pt sv".split())
# Name, damage, a check that succeeds only in the declared state, and the resources that a plan repairs. systemd itself starts a killed ssh.
# A damage in several steps must not fail if kilter repairs the first one meanwhile: directories are renamed, and a stop may be cancelled.
DAMAGES = [
    ("file, content", "echo x >>/etc/motd", "! grep -qx x /etc/motd", "file[/etc/motd]"),
    ("file, mode", "chmod 0777 /etc/shop", "[ $(stat -c %a /etc/shop) = 755 ]", "file[/etc/shop]"),
    ("file, owner", "chown root /var/lib/shop/uploads", "[ $(stat -c %U /var/lib/shop/uploads) = shop ]", "file[/var/lib/shop/uploads]"),
    ("file, removed", "rm /srv/www/404.html", "[ -s /srv/www/404.html ]", "file[/srv/www/404.html]"),
    ("file, directory removed", "mv /etc/shop/languages $(mktemp -d)", "[ $(ls /etc/shop/languages | wc -l) = 9 ]", LANGUAGES),
    ("file, link to another file", "ln -sfn /nowhere /etc/nginx/sites-enabled/shop.example", "[ -e /etc/nginx/sites-enabled/shop.example ]", "file[/etc/nginx/sites-enabled/shop.example] service[nginx]"),
    ("file, entry in a purged directory", "touch /etc/shop/languages/xx.conf", "[ ! -e /etc/shop/languages/xx.conf ]", "file[/etc/shop/languages]"),
    ("file, secret", "echo >/etc/shop/database.env", "grep -q PASSWORD= /etc/shop/database.env", "file[/etc/shop/database.env] service[shop]"),
    ("file, checked by visudo", "echo >/etc/sudoers.d/admins", "grep -q NOPASSWD /etc/sudoers.d/admins", "file[/etc/sudoers.d/admins]"),
    ("file, unit file", "rm /etc/systemd/system/shop.service", "[ -s /etc/systemd/system/shop.service ] && systemctl is-active shop", "file[/etc/systemd/system/shop.service] service[shop]"),
    ("line, removed", "sed -i /SHOP_WORKERS/d /etc/shop/settings.d.env", "grep -qx SHOP_WORKERS=4 /etc/shop/settings.d.env", "line[setting SHOP_WORKERS] service[shop]"),
    ("line, checked by sshd", "sed -i 's/^MaxAuthTries.*/MaxAuthTries 9/' /etc/ssh/sshd_config", "grep -qx 'MaxAuthTries 3' /etc/ssh/sshd_config", "line[sshd MaxAuthTries] service[ssh]"),
    ("ini, value", "sed -i s/500M/1G/ /etc/systemd/journald.conf.d/size.conf", "grep -qx 'SystemMaxUse *= *500M' /etc/systemd/journald.conf.d/size.conf", "ini[journal size] service[systemd-journald]"),
    ("archive, file changed", "echo >/srv/shop/theme/1.css", "grep -q body /srv/shop/theme/1.css", "archive[theme]"),
    ("vcsrepo, checkout removed", "mv /srv/shop/source $(mktemp -d)", "[ $(cat /srv/shop/source/version) = 1 ]", "vcsrepo[/srv/shop/source] service[shop]"),
    ("user, shell", "usermod -s /bin/sh alice", "getent passwd alice | grep -q :/bin/bash$", "user[alice]"),
    ("user, removed", "userdel dave", "[ $(id -u dave) = 2004 ]", "user[dave]"),
    ("group, members' group changed", "usermod -g nogroup carol", "[ $(id -gn carol) = admins ]", "user[carol]"),
    ("ssh_authorized_key, file removed", "rm /home/bob/.ssh/authorized_keys", "grep -q AAAA /home/bob/.ssh/authorized_keys", "ssh_authorized_key[bob:work]"),
    ("cron, crontab removed", "crontab -r -u root", "[ $(crontab -l -u root | grep -c 'df -h\\|find /srv/cache') = 2 ]", "cron[clean cache] cron[disk report]"),
    ("host, entry removed", "sed -i /backup.example/d /etc/hosts", "grep -q backup.example /etc/hosts", "host[backup.example]"),
    ("sysctl, value", "sysctl -qw net.ipv4.conf.all.log_martians=0", "[ $(sysctl -n net.ipv4.conf.all.log_martians) = 1 ]", "sysctl[net.ipv4.conf.all.log_martians]"),
    ("mount, unmounted", "umount /srv/cache", "mountpoint -q /srv/cache", "mount[/srv/cache]"),
    ("firewall, table removed", "nft delete table inet filter", "nft list table inet filter | grep -q 'dport 443'", "firewall[inet filter]"),
    ("timezone", "ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime", "[ $(readlink -f /etc/localtime) = /usr/share/zoneinfo/Etc/UTC ]", "timezone[system]"),
    ("service, stopped", "systemctl stop nginx", "systemctl is-active nginx", "service[nginx]"),
    ("service, killed", "systemctl kill -s KILL ssh", "systemctl is-active ssh", ""),
    ("service, disabled", "systemctl disable -q shop-report.timer", "systemctl is-enabled shop-report.timer", "service[shop-report.timer]"),
    ("service, masked", "systemctl mask -q cron && { systemctl stop -q cron || true; }", "systemctl is-active cron && systemctl is-enabled cron", "service[cron]"),
    ("package, removed", "apt-get -qq -y purge htop", "dpkg -s htop | grep -q '^Status: install ok installed'", "package[htop]"),
]


def succeeds(command):
    return subprocess.run(["bash", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def resources(command):
    """Runs plan or apply. Returns the resources that it changes or refreshes, and those that a plan does not know."""
    report = subprocess.run(["kilter", command, "--format", "json", *sys.argv[1:]], capture_output=True, text=True)
    if report.returncode not in (0, 2):
        sys.exit(f"kilter {command}: exit code {report.returncode}\n{report.stdout}{report.stderr}")
    found = [(one["resource"], one["status"]) for one in json.loads(report.stdout)["resources"]]
    known = [resource for resource, status in found if status in ("would_change", "would_refresh", "changed", "refreshed")]
    return known, [resource for resource, status in found if status == "unknown"]


def repaired_by_hand():
    """Repairs each damage by plan and apply. Exits if the plan shows another resource, or apply changes another one."""
    for name, damage, check, expected in DAMAGES:
        if not succeeds(damage):
            sys.exit(f"{damage} failed")
        # Until then systemd has started a killed service.
        time.sleep(1)
        planned, unknown = resources("plan")
        applied, _ = resources("apply")
        if planned != re.findall(r"\w+\[.*?\]", expected):
            sys.exit(f"{name}: the plan has {planned}")
        if not set(planned) <= set(applied) <= {*planned, *unknown}:
            sys.exit(f"{name}: apply changed {applied}, planned {planned}, unknown {unknown}")
        end = time.monotonic() + TIMEOUT
        while not succeeds(check):
            if time.monotonic() > end:
                sys.exit(f"{name}: not repaired")
            time.sleep(0.1)
        rest = resources("plan")
        if any(rest):
            sys.exit(f"{name}: a second plan has {rest}")
    print(f"{len(DAMAGES)} damages: the plan shows exactly these, and apply repairs exactly these")


def main():
    repaired_by_hand()
    log = open("/srv/run.log", "w")
    run = subprocess.Popen(["kilter", "run", *sys.argv[1:]], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    end = time.monotonic() + TIMEOUT
    while not succeeds("kilter status --all | grep -q . && kilter status"):
        if time.monotonic() > end:
            sys.exit("the run has not settled\n" + open("/srv/run.log").read())
        time.sleep(0.1)
    missing = [name for name, _, check, _ in DAMAGES if not succeeds(check)]
    if missing:
        sys.exit(f"these checks fail without a damage: {missing}")
    print("| damage | repaired after |\n|---|---|")
    late = 0
    for name, damage, check, _ in DAMAGES:
        if not succeeds(damage):
            sys.exit(f"{damage} failed")
        begun = time.monotonic()
        while not succeeds(check) and time.monotonic() < begun + TIMEOUT:
            time.sleep(0.01)
        seconds = time.monotonic() - begun
        late += seconds >= TIMEOUT
        print(f"| {name}: `{damage}` | {'not repaired' if seconds >= TIMEOUT else f'{seconds:.2f} s'} |")
    run.terminate()
    run.wait()
    print(f"{len(DAMAGES)} damages, {late} not repaired")
    if late:
        print(open("/srv/run.log").read())
    sys.exit(late > 0)


main()
