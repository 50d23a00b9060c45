"""Applies manifests again and again while others write to the same host: apt-get, editors of the same files, systemctl.

It fails if an apply takes longer than the limit, if an edit of another writer is lost, or if a report is not true. The
arguments are those of `kilter apply`."""

import collections
import json
import os
import subprocess
import sys
import threading
import time

SECONDS = 120
LIMIT = 180
ended = threading.Event()
errors = []
# Failures of resources that the others caused, and their number.
reasons = collections.Counter()


def shell(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True)


class Editor(threading.Thread):
    """Writes numbered comments to a file and damages a declared line, as an administrator might."""

    def __init__(self, path, damage, replaces):
        super().__init__()
        self.path, self.damage, self.replaces, self.count = path, damage, replaces, 0

    def run(self):
        while not ended.wait(0.05):
            line = f"# by hand {self.replaces} {self.count}\n"
            if self.replaces:
                # Like an editor: a new file takes the place of the old one, if that has not changed meanwhile.
                before = os.stat(self.path)
                text = open(self.path).read().replace(*self.damage) + line
                new = self.path + ".edited"
                with open(new, "w") as file:
                    file.write(text)
                os.chmod(new, before.st_mode)
                now = os.stat(self.path)
                if (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
                    os.unlink(new)
                    continue
                os.rename(new, self.path)
            else:
                with open(self.path, "a") as file:
                    file.write(line)
            self.count += 1

    def lost(self):
        lines = set(open(self.path).read().splitlines())
        return [number for number in range(self.count) if f"# by hand {self.replaces} {number}" not in lines]


class Repeated(threading.Thread):
    """Runs commands one after the other."""

    def __init__(self, commands):
        super().__init__()
        self.commands, self.count, self.failed = commands, 0, []

    def run(self):
        while not ended.is_set():
            done = shell(self.commands[self.count % len(self.commands)])
            self.count += 1
            if done.returncode != 0:
                self.failed.append(done.stderr.strip().splitlines()[-1:])
            ended.wait(0.2)


def applied():
    """Applies once. Returns the duration, the exit code and the number of changes."""
    begun = time.monotonic()
    try:
        apply = subprocess.run(["kilter", "apply", "--format", "json", *sys.argv[1:]], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"kilter apply took longer than {LIMIT} s: a deadlock")
    report = json.loads(apply.stdout)
    states = [resource["status"] for resource in report["resources"]]
    has_failed = any(state in ("failed", "skipped") for state in states)
    if apply.returncode != (4 if has_failed else 0):
        errors.append(f"exit code {apply.returncode} with {sorted(set(states))}: {apply.stderr}")
    for resource in report["resources"]:
        if resource["status"] == "failed":
            if not resource.get("failure"):
                errors.append(f"{resource['resource']} has failed without a reason")
            reasons[f"{resource['resource']}: {(resource.get('failure') or '').splitlines()[0]}"] += 1
    return time.monotonic() - begun, apply.returncode, sum(state in ("changed", "refreshed") for state in states)


def main():
    editors = [
        Editor("/etc/ssh/sshd_config", ("MaxAuthTries 3", "MaxAuthTries 9"), True),
        Editor("/etc/hosts", ("192.0.2.10", "192.0.2.99"), True),
        Editor("/etc/shop/settings.d.env", ("", ""), False),
    ]
    apt = Repeated(["apt-get -qq -y -o DPkg::Lock::Timeout=60 purge jq", "apt-get -qq -y -o DPkg::Lock::Timeout=60 install jq"])
    systemctl = Repeated(["systemctl stop cron", "systemctl restart nginx", "systemctl disable -q shop-report.timer", "systemctl daemon-reload"])
    threads = [*editors, apt, systemctl]
    for thread in threads:
        thread.start()
    end, rounds = time.monotonic() + SECONDS, []
    while time.monotonic() < end:
        rounds.append(applied())
    ended.set()
    for thread in threads:
        thread.join()
    lost = {editor.path: editor.lost() for editor in editors}
    edits = sum(editor.count for editor in editors)
    failed = sum(code != 0 for _, code, _ in rounds)
    print(f"{len(rounds)} applies, {sum(count for *_, count in rounds)} changes, the longest {max(rounds)[0]:.1f} s, {failed} with failures")
    print(f"{edits} edits by hand, {sum(map(len, lost.values()))} lost")
    print(f"{apt.count} runs of apt-get, {len(apt.failed)} failed; {systemctl.count} of systemctl, {len(systemctl.failed)} failed")
    for reason in sorted({str(each) for each in apt.failed + systemctl.failed}):
        print(" ", reason)
    for reason, count in reasons.most_common():
        print(f"  {count} × {reason}")
    first, last = applied(), applied()
    if first[1] or last[1:] != (0, 0):
        errors.append(f"without the others, two applies give {first} and {last}")
    errors.extend(f"{path}: lost {numbers}" for path, numbers in lost.items() if numbers)
    for error in errors:
        print("FAILED:", error)
    print("no deadlock, no lost edit, true reports" if not errors else f"{len(errors)} problems")
    sys.exit(bool(errors))


main()
