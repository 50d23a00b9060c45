#!/usr/bin/env python3
"""A manifest that is a program: it gets the facts as JSON and prints a manifest.

    kilter apply examples/fleet.py

Loops, conditions and lookups belong here; the language of manifests has none.
"""

import json
import sys

facts = json.load(sys.stdin)
root = facts["kilter"]["working_dir"] + "/target/fleet"
hosts = {"web1": ["web"], "web2": ["web"], "db1": ["database", "backup"]}

resources = {
    "file[target]": {"path": facts["kilter"]["working_dir"] + "/target", "ensure": "directory"},
    "file[fleet]": {"path": root, "ensure": "directory"},
}
for host, roles in hosts.items():
    resources[f"file[{host}]"] = {
        "path": f"{root}/{host}.json",
        "content": json.dumps({"host": host, "roles": roles, "memory": facts["memory"]["system"]["total"]}) + "\n",
        "mode": "0640",
    }

json.dump({"resources": resources}, sys.stdout, indent=2)
