#!/bin/sh
if [ "$1" = --host ]; then
  echo "{\"name\": \"$2\"}"
else
  echo '{"web": {"hosts": ["a", "b"], "vars": {"x": 1}}, "other": {"children": ["web"]}}'
fi
