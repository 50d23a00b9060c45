#!/usr/bin/python3
"""compare.py TYPE: compares the instances of `puppet resource TYPE` and `kilter get TYPE --format puppet`, attribute by attribute.

Prints titles that only one of them has, and for each attribute the number of instances that differ, with an example.
"""

import collections
import re
import subprocess
import sys


def resources(command):
    """Reads declarations of the Puppet language with an attribute a line."""
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found, attributes, pending = {}, {}, ""
    for line in re.sub("\x1b\\[[0-9;]*m", "", text).splitlines():
        if start := re.match(r"\w+ { '((?:[^'\\]|\\.)*)':$", line):
            # For Puppet, a service of systemd has the name of its unit.
            attributes = found.setdefault(start[1].removesuffix(".service"), {})
        elif pending:
            pending += line.strip()
        elif pair := re.match(r"\s+(\w+)\s+=> (.*)$", line):
            name, pending = pair[1], pair[2]
        if pending and pending.count("[") == pending.count("]"):
            attributes[name], pending = pending.rstrip(",").replace("', '", "','"), ""
    return found


def main():
    of_type = sys.argv[1]
    puppet = resources(["puppet", "resource", of_type])
    kilter = resources(["kilter", "get", of_type, "--format", "puppet"])
    print(f"{of_type}: {len(puppet)} instances of Puppet, {len(kilter)} of kilter")
    for name, one, other in (("Puppet", puppet, kilter), ("kilter", kilter, puppet)):
        only = sorted(one.keys() - other.keys())
        if only:
            print(f"  only {name} has {len(only)}: {', '.join(only[:8])}")
    different, examples = collections.Counter(), {}
    for title in puppet.keys() & kilter.keys():
        for attribute in puppet[title].keys() | kilter[title].keys():
            values = puppet[title].get(attribute, "-"), kilter[title].get(attribute, "-")
            if values[0] != values[1]:
                kind = "only kilter" if values[0] == "-" else "only Puppet" if values[1] == "-" else "values"
                different[attribute, kind] += 1
                examples[attribute, kind] = f"{title}: {values[0]} | {values[1]}"
    for (attribute, kind), count in sorted(different.items()):
        print(f"  {attribute} ({kind}) {count}: {examples[attribute, kind]}")


main()
