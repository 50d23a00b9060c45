-- Version 1 of the history. `docs/reference/history.md` describes the tables. All times are milliseconds since 1970.

-- Resources that have events.
CREATE TABLE resource (
  id INTEGER PRIMARY KEY,
  type TEXT NOT NULL,
  title TEXT NOT NULL,
  name TEXT NOT NULL,
  UNIQUE (type, title)
) STRICT;
CREATE INDEX resource_name ON resource (type, name) WHERE name <> title;

-- Events, in the order in which they were written. Nothing changes an event.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  resource INTEGER REFERENCES resource,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX event_resource ON event (resource, id) WHERE resource IS NOT NULL;

-- Runs: the event that begins a run, and the event that ends it. A run without an end is under way, or was cut off.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  ended INTEGER
) STRICT;

-- Chain of digests: one link for each transaction, over its events and the link before.
CREATE TABLE link (
  last INTEGER PRIMARY KEY,
  digest BLOB NOT NULL,
  pruned INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Saved states of resources, compressed and encrypted, by the digest of their content.
CREATE TABLE state (
  digest TEXT PRIMARY KEY,
  at INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

-- Current declaration of each resource that kilter manages.
CREATE TABLE declared (
  resource INTEGER PRIMARY KEY REFERENCES resource,
  origin TEXT NOT NULL,
  run INTEGER NOT NULL,
  digests BLOB NOT NULL,
  settled INTEGER NOT NULL
) STRICT;

-- Digest of all declarations of a set of manifests.
CREATE TABLE catalog (
  origin TEXT PRIMARY KEY,
  digest BLOB NOT NULL
) STRICT;

PRAGMA user_version = 1;
