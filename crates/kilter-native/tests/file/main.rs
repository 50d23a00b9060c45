//! The type `file` on a real file system. Some tests need root; each says how to get it.

mod access;
mod content;
mod declared;
mod ensure;
mod foresee;
mod fragments;
mod harness;
mod ownership;
mod parents;
mod secrets;
mod sizes;
mod trees;
