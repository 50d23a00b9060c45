//! The commands, one file each.

pub(crate) mod act;
pub(crate) mod apply;
pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod facts;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod man;
pub(crate) mod mold_loop;
pub(crate) mod pass;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod provider;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod set;
pub(crate) mod status;
pub(crate) mod types;
