"""Makes 50 changes on a host that `kilter run` holds, and compares the history with each of them.

People and services change files by programs that live on, other programs end at once, and edits change the manifest.
Prints a table. Ends with 1 if the history is wrong about a change."""

import json
import os
import subprocess
import sys
import time

TIMEOUT = 60
SITE = "/srv/site.yaml"
FILES = [f"/srv/held/f{number:02}" for number in range(12)]
SHELL = 'while read -r order; do eval "$order"; done'


def kilter(*arguments):
    return subprocess.run(["kilter", *arguments], stdout=subprocess.PIPE, text=True).stdout


def outcomes(path):
    """Returns the results of a file, the newest first."""
    events = [json.loads(line) for line in kilter("history", f"file[{path}]", "--format", "json").splitlines()]
    return [event for event in events if event["kind"] == "outcome"]


def declare(contents, modes):
    lines = ["resources:", "  file[/srv/held]: {ensure: directory}"]
    for path in FILES:
        lines.append(f"  file[{path}]:")
        lines.append(f'    {{content: "{contents[path]}", mode: "{modes[path]}", owner: nobody}}')
    with open(SITE + ".new", "w") as file:
        file.write("\n".join(lines) + "\n")
    os.rename(SITE + ".new", SITE)


class Living:
    """Shell of a person, as root or as another user, that lives on."""

    def __init__(self, user=None):
        words = ["setpriv", "--reuid", user, "--clear-groups"] if user else []
        self.shell = subprocess.Popen([*words, "bash", "-c", SHELL], stdin=subprocess.PIPE, text=True)
        self.expected = {"pid": self.shell.pid, "command": ["bash", "-c", SHELL], "user": user or "root"}

    def change(self, order):
        self.shell.stdin.write(order + "\n")
        self.shell.stdin.flush()
        return self.expected

    def end(self):
        self.shell.stdin.close()
        self.shell.wait()


class Service:
    """Service of systemd that lives on."""

    def __init__(self):
        self.name = "writer.service"

    def change(self, order):
        script = f"{order}; sleep 1000; true"
        subprocess.run(["systemd-run", "-q", "--unit", self.name, "--collect", "bash", "-c", script], check=True)
        shown = subprocess.run(["systemctl", "show", "--value", "-p", "MainPID", self.name], stdout=subprocess.PIPE, text=True)
        command = ["/usr/bin/bash", "-c", script]
        return {"pid": int(shown.stdout), "command": command, "user": "root", "unit": self.name}

    def end(self):
        subprocess.run(["systemctl", "stop", self.name])


class Itself:
    """This program."""

    def change(self, order):
        path, text = order
        with open(path, "w") as file:
            file.write(text)
        with open("/proc/self/cmdline") as file:
            command = file.read().rstrip("\0").split("\0")
        return {"pid": os.getpid(), "command": command, "user": "root"}

    def end(self):
        pass


class Ending:
    """Program that ends at once."""

    def change(self, order):
        program = subprocess.Popen(order)
        assert program.wait() == 0, order
        return {"pid": program.pid}

    def end(self):
        pass


def replacement(path):
    """Returns a file with another content, in another directory."""
    other = "/srv/" + os.path.basename(path)
    with open(other, "w") as file:
        file.write("other")
    os.chmod(other, 0o644)
    return other


def rounds():
    """Generates lists of changes: name, program, order, file, attribute that differs."""
    f = FILES
    shells = [Living() for _ in range(4)]
    yield [
        ("by hand: echo >", shells[0], f"echo x >{f[0]}", f[0], "content"),
        ("by hand: echo >>", shells[1], f"echo x >>{f[1]}", f[1], "content"),
        ("by hand: another owner's", Living("nobody"), f"echo x >{f[2]}", f[2], "content"),
        ("service: echo >", Service(), f"echo x >{f[3]}", f[3], "content"),
        ("Python: write", Itself(), (f[4], "x"), f[4], "content"),
        ("chmod", Ending(), ["chmod", "0600", f[5]], f[5], "mode"),
        ("chown", Ending(), ["chown", "root", f[6]], f[6], "owner"),
        ("sed -i", Ending(), ["sed", "-i", "s/.*/x/", f[7]], f[7], "content"),
        ("rm", Ending(), ["rm", f[8]], f[8], "ensure"),
        ("cp", Ending(), ["cp", replacement(f[9]), f[9]], f[9], "content"),
        ("mv", Ending(), ["mv", replacement(f[10]), f[10]], f[10], "content"),
        ("truncate", Ending(), ["truncate", "-s", "0", f[11]], f[11], "content"),
    ]
    yield [
        ("by hand: printf >", shells[0], f"printf y >{f[11]}", f[11], "content"),
        ("by hand: two lines", shells[1], f"{{ echo a; echo b; }} >{f[10]}", f[10], "content"),
        ("by hand: exec 3>", shells[2], f"exec 3>{f[9]}; echo y >&3", f[9], "content"),
        ("by hand: exec 4<>", shells[3], f"exec 4<>{f[8]}; echo yy >&4", f[8], "content"),
        ("Python: write", Itself(), (f[7], "y"), f[7], "content"),
        ("chmod +x", Ending(), ["chmod", "+x", f[6]], f[6], "mode"),
        ("chgrp and chown", Ending(), ["chown", "daemon:daemon", f[5]], f[5], "owner"),
        ("dd", Ending(), ["dd", "if=/dev/zero", f"of={f[4]}", "bs=1", "count=3", "status=none"], f[4], "content"),
        ("ln -sf", Ending(), ["ln", "-sf", "/dev/null", f[3]], f[3], "ensure"),
        ("tee", Ending(), ["bash", "-c", f"exec tee {f[2]} <<<y >/dev/null"], f[2], "content"),
        ("mv -f", Ending(), ["mv", "-f", replacement(f[1]), f[1]], f[1], "content"),
        ("unlink", Ending(), ["unlink", f[0]], f[0], "ensure"),
    ]
    yield [
        ("by hand: echo >", shells[2], f"echo z >{f[0]}", f[0], "content"),
        ("by hand: echo >", shells[3], f"echo z >{f[1]}", f[1], "content"),
        ("by hand: another owner's", Living("nobody"), f"echo z >>{f[2]}", f[2], "content"),
        ("service: echo >", Service(), f"echo z >>{f[3]}", f[3], "content"),
        ("Python: write", Itself(), (f[4], "z"), f[4], "content"),
        ("chmod", Ending(), ["chmod", "0000", f[5]], f[5], "mode"),
        ("chown", Ending(), ["chown", "1", f[6]], f[6], "owner"),
        ("mv to another name", Ending(), ["mv", f[7], "/srv/held/elsewhere"], f[7], "ensure"),
        ("sed -i", Ending(), ["sed", "-i", "s/.*/z/", f[8]], f[8], "content"),
        ("rm", Ending(), ["rm", f[9]], f[9], "ensure"),
        ("cp -f", Ending(), ["cp", "-f", replacement(f[10]), f[10]], f[10], "content"),
        ("Python, another one", Ending(), ["python3", "-c", f"open({f[11]!r}, 'w')"], f[11], "content"),
    ]


def wait(path, former, run):
    """Waits for the next result of a file."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        found = outcomes(path)
        if len(found) > former:
            return found[: len(found) - former]
        if run.poll() is not None:
            sys.exit("the run has ended\n" + open("/srv/run.log").read())
        time.sleep(0.05)
    return []


def blame(path, attribute):
    found = json.loads(kilter("blame", f"file[{path}]", attribute, "--format", "json") or "[]")
    # A file that was created has all values from that change.
    return next((one for one in found if one["attribute"] in (attribute, "ensure")), None)


def problems(results, path, attribute, expected, run_id):
    """Compares the results of a file after one change. `expected` is none after an edit of the manifest."""
    if len(results) != 1:
        return [f"{len(results)} results"]
    result, is_drift = results[0], expected is not None
    process = result.get("process") or {}
    wrong = []
    if result.get("corrective") != is_drift:
        wrong.append(f"corrective {result.get('corrective')}")
    if attribute not in [change["attribute"] for change in result.get("changes", [])]:
        wrong.append(f"changes {result.get('changes')}")
    if result["run"] != run_id or result["command"] != "run":
        wrong.append(f"run {result['run']}, {result['command']}")
    if not str(result.get("place")).startswith(SITE):
        wrong.append(f"place {result.get('place')}")
    if is_drift and "drift_ms" not in result:
        wrong.append("no time of the drift")
    for key, value in (expected or {}).items():
        if process.get(key) != value:
            wrong.append(f"{key} {process.get(key)} instead of {value}")
    if process and (not is_drift or process["started_by"] == "kilter"):
        wrong.append(f"process {process}")
    of = blame(path, attribute)
    if not of or of["corrective"] != is_drift or of["run"] != run_id or of["user"] != "root" or of["place"] != result.get("place"):
        wrong.append(f"blame {of}")
    return wrong


def main():
    contents, modes = {path: "one\\n" for path in FILES}, {path: "0644" for path in FILES}
    declare(contents, modes)
    run = subprocess.Popen(["kilter", "run", SITE], stdout=open("/srv/run.log", "w"), stderr=subprocess.STDOUT)
    first = [wait(path, 0, run) for path in FILES]
    run_id = first[0][0]["run"]
    print("| change | result | cause | blame | pid | command | unit |\n|---|---|---|---|---|---|---|")
    count = wrong = 0

    def compare(name, former, path, attribute, expected):
        nonlocal count, wrong
        results = wait(path, former, run)
        found = problems(results, path, attribute, expected, run_id)
        process = (results[0].get("process") or {}) if results else {}
        word = "corrected" if results and results[0].get("corrective") else "changed"
        of = blame(path, attribute) or {}
        why = "drift repaired" if of.get("corrective") else "declared"
        command = " ".join(process.get("command", [process.get("program", "")]))[:40].replace("|", "\\|")
        cause = "drift" if expected is not None else "edit"
        print(f"| {name} | {word} | {cause} | {why} | {process.get('pid', '')} | `{command}` | {process.get('unit', '')} |")
        count += 1
        wrong += bool(found)
        for one in found:
            print(f"WRONG: {one}")

    for changes in rounds():
        # Each file changes once in a round, so that each result belongs to one change.
        former = {path: len(outcomes(path)) for _, _, _, path, _ in changes}
        made = [(name, path, attribute, program.change(order)) for name, program, order, path, attribute in changes]
        for name, path, attribute, expected in made:
            compare(name, former[path], path, attribute, expected)
        for name, program, *_ in changes:
            if name.startswith(("service", "by hand: another")):
                program.end()
    for text, mode in [("two\\n", "0640"), ("three\\n", "0600")]:
        former = {path: len(outcomes(path)) for path in FILES[:7]}
        for path in FILES[:4]:
            contents[path] = text
        for path in FILES[4:7]:
            modes[path] = mode
        declare(contents, modes)
        for path in FILES[:7]:
            compare("edit of the manifest", former[path], path, "content" if path in FILES[:4] else "mode", None)
    run.terminate()
    run.wait()
    verified = kilter("history", "verify").splitlines()[0]
    print(f"{count} changes, {wrong} wrong; {verified}")
    if wrong:
        print(open("/srv/run.log").read()[-3000:])
    sys.exit(wrong > 0)


main()
