//! The type `file` on a real file system. Some tests need root; each says how to get it.

mod access;
mod content;
mod declared;
mod downloads;
mod ensure;
mod fragments;
mod harness;
mod ownership;
mod parents;
mod predicted_failures;
mod secrets;
mod sizes;
mod trees;
