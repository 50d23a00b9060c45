//! The example types of the Puppet Resource API's text: their definitions are data, their providers keep
//! small worlds in memory that behave like the real ones, and manifests are compiled and run against them.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod apt_key;
mod behaviours;
mod canonical;
mod chain;
mod nx9k_vlan;
mod owners;
mod relations;
mod site;
mod software;
mod test_custom_insync;
mod test_custom_insync_hidden_property;
