//! The command as its users see it: whole outputs and exit codes, in an environment of its own.
//!
//! The tests compare the output with the files in `snapshots/`. `KILTER_UPDATE_SNAPSHOTS=1` writes these files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod archive;
mod careful;
mod check;
mod clean;
mod composite;
mod contested;
mod embedded;
mod encrypted;
mod etcd;
mod exit_codes;
mod explain;
mod facts;
mod get;
mod graph;
mod guards;
mod guide;
mod help;
mod history;
mod inherited;
mod listen;
mod machine;
mod many;
mod meta;
mod mgmt;
mod mold;
mod mold_guide;
mod mold_provider;
mod mold_routine;
mod mold_schema;
mod nested;
mod parts;
mod pause;
mod plans;
mod predicted_failures;
mod problems;
mod provider_new;
mod puppet;
mod ralsh;
mod record;
mod refresh;
mod reverse;
mod run;
mod scripts;
mod secrets;
mod set;
mod share;
mod stale;
mod state_dir;
mod status;
mod storm;
mod support;
mod swap;
mod template;
mod trust;
mod types;
mod unknown_steps;
mod var_dir;
mod vcsrepo;
mod watches;
mod woken;
