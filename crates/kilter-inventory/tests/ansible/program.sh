#!/bin/sh
cat <<'JSON'
{
  "databases": { "hosts": ["host1.example.com", "host2.example.com"], "vars": { "a": true } },
  "webservers": ["host2.example.com", "host3.example.com"],
  "atlanta": { "hosts": ["host1.example.com", "host4.example.com"], "vars": { "b": false, "list": [1, "x", null] }, "children": ["marietta", "5points"] },
  "marietta": ["host6.example.com"],
  "5points": ["host7.example.com"],
  "_meta": { "hostvars": { "host1.example.com": { "asdf": 1234, "b": "host" }, "host7.example.com": { "m": { "k": "v" } } } }
}
JSON
