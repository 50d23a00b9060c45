"""Damages a host that `kilter run` holds, 30 times, and prints the time of each repair as a table.

A repair counts when its check succeeds. The arguments are those of `kilter run`."""

import os
import subprocess
import sys
import time

TIMEOUT = 120
# Resource, damage, and a check that succeeds only in the declared state. A damage in
# several steps must not fail if kilter repairs the first one meanwhile: directories are renamed, and a stop may be cancelled.
DAMAGES = [
    ("file, content", "echo x >>/etc/motd", "! grep -qx x /etc/motd"),
    ("file, mode", "chmod 0777 /etc/shop", "[ $(stat -c %a /etc/shop) = 755 ]"),
    ("file, owner", "chown root /var/lib/shop/uploads", "[ $(stat -c %U /var/lib/shop/uploads) = shop ]"),
    ("file, removed", "rm /srv/www/404.html", "[ -s /srv/www/404.html ]"),
    ("file, directory removed", "mv /etc/shop/languages /var/tmp", "[ $(ls /etc/shop/languages | wc -l) = 9 ]"),
    ("file, link to another file", "ln -sfn /nowhere /etc/nginx/sites-enabled/shop.example", "[ -e /etc/nginx/sites-enabled/shop.example ]"),
    ("file, entry in a purged directory", "touch /etc/shop/languages/xx.conf", "[ ! -e /etc/shop/languages/xx.conf ]"),
    ("file, secret", "echo >/etc/shop/database.env", "grep -q PASSWORD= /etc/shop/database.env"),
    ("file, checked by visudo", "echo >/etc/sudoers.d/admins", "grep -q NOPASSWD /etc/sudoers.d/admins"),
    ("file, unit file", "rm /etc/systemd/system/shop.service", "[ -s /etc/systemd/system/shop.service ] && systemctl is-active shop"),
    ("line, removed", "sed -i /SHOP_WORKERS/d /etc/shop/settings.d.env", "grep -qx SHOP_WORKERS=4 /etc/shop/settings.d.env"),
    ("line, checked by sshd", "sed -i 's/^MaxAuthTries.*/MaxAuthTries 9/' /etc/ssh/sshd_config", "grep -qx 'MaxAuthTries 3' /etc/ssh/sshd_config"),
    ("ini, value", "sed -i s/500M/1G/ /etc/systemd/journald.conf.d/size.conf", "grep -qx 'SystemMaxUse *= *500M' /etc/systemd/journald.conf.d/size.conf"),
    ("archive, file changed", "echo >/srv/shop/theme/1.css", "grep -q body /srv/shop/theme/1.css"),
    ("vcsrepo, checkout removed", "mv /srv/shop/source /var/tmp", "[ $(cat /srv/shop/source/version) = 1 ]"),
    ("user, shell", "usermod -s /bin/sh alice", "getent passwd alice | grep -q :/bin/bash$"),
    ("user, removed", "userdel dave", "[ $(id -u dave) = 2004 ]"),
    ("group, members' group changed", "usermod -g nogroup carol", "[ $(id -gn carol) = admins ]"),
    ("ssh_authorized_key, file removed", "rm /home/bob/.ssh/authorized_keys", "grep -q AAAA /home/bob/.ssh/authorized_keys"),
    ("cron, crontab removed", "crontab -r -u root", "[ $(crontab -l -u root | grep -c 'df -h\\|find /srv/cache') = 2 ]"),
    ("host, entry removed", "sed -i /backup.example/d /etc/hosts", "grep -q backup.example /etc/hosts"),
    ("sysctl, value", "sysctl -qw net.ipv4.conf.all.log_martians=0", "[ $(sysctl -n net.ipv4.conf.all.log_martians) = 1 ]"),
    ("mount, unmounted", "umount /srv/cache", "mountpoint -q /srv/cache"),
    ("firewall, table removed", "nft delete table inet filter", "nft list table inet filter | grep -q 'dport 443'"),
    ("timezone", "ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime", "[ $(readlink -f /etc/localtime) = /usr/share/zoneinfo/Etc/UTC ]"),
    ("service, stopped", "systemctl stop nginx", "systemctl is-active nginx"),
    ("service, killed", "systemctl kill -s KILL ssh", "systemctl is-active ssh"),
    ("service, disabled", "systemctl disable -q shop-report.timer", "systemctl is-enabled shop-report.timer"),
    ("service, masked", "systemctl mask -q cron && { systemctl stop -q cron || true; }", "systemctl is-active cron && systemctl is-enabled cron"),
    ("package, removed", "apt-get -qq -y purge htop", "dpkg -s htop | grep -q '^Status: install ok installed'"),
]


def succeeds(command):
    return subprocess.run(["bash", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def main():
    log = open("/srv/run.log", "w")
    run = subprocess.Popen(["kilter", "run", *sys.argv[1:]], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    end = time.monotonic() + TIMEOUT
    while not succeeds("kilter status --all | grep -q . && kilter status"):
        if time.monotonic() > end:
            sys.exit("the run has not settled\n" + open("/srv/run.log").read())
        time.sleep(0.1)
    missing = [name for name, _, check in DAMAGES if not succeeds(check)]
    if missing:
        sys.exit(f"these checks fail without a damage: {missing}")
    print("| damage | repaired after |\n|---|---|")
    late = 0
    for name, damage, check in DAMAGES:
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
