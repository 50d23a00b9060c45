//! Unpacked archives, and files from a server.

use std::io::{BufRead, BufReader, Write};

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const UNPACKED: &str = "resources:\n  file[DIR/to/etc/local]: {content: \"below\\n\"}\n  file[DIR/to]: {ensure: \
                        directory}\n  archive[DIR/tool.tar.gz]: {extract_path: DIR/to}\n";

fn with_archive() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path().join("etc")).unwrap();
    place.file("etc/tool.conf", "from the archive\n");
    let mut command = std::process::Command::new("tar");
    let status = command.current_dir(place.path()).args(["-czf", "tool.tar.gz", "etc"]).status().unwrap();
    assert!(status.success());
    place
}

#[test]
fn archive_is_planned_applied_and_repaired() {
    let place = with_archive();
    let path = manifest(&place, UNPACKED);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(!place.path().join("to").exists(), "a plan changes nothing");
    let applied = place.run(&["apply", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place.path().join("to/etc/local")), "below\n", "the file comes after the archive");
    assert_eq!(place.run(&["plan", &path]).code, 0);
    std::fs::write(place.path().join("to/etc/tool.conf"), "damaged").unwrap();
    let plan = place.run(&["plan", &path]);
    assert!(plan.stdout.contains("differing files: etc/tool.conf"), "{}", plan.stdout);
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&place.path().join("to/etc/tool.conf")), "from the archive\n");
}

#[test]
fn damaged_files_of_an_archive_are_repaired_by_run() {
    let place = with_archive();
    let running = Running::begin(&place, &[&manifest(&place, UNPACKED)]);
    let to = place.path().join("to");
    wait("the files", || to.join("etc/local").exists());
    std::fs::remove_dir_all(to.join("etc")).unwrap();
    wait("the repair", || to.join("etc/tool.conf").exists());
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}

#[test]
fn file_from_a_server_is_installed_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/motd", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // The second request gets no answer, so a check that sends one fails.
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew");
    });
    let place = Place::new();
    let sum = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
    let path = manifest(&place, &format!("resources:\n  file[DIR/motd]: {{source: \"{url}\", checksum: {sum}}}\n"));
    assert_eq!(place.run(&["plan", &path]).code, 2);
    let applied = place.run(&["apply", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place.path().join("motd")), "new");
    assert_eq!(place.run(&["apply", &path]).code, 0, "a file in sync needs no server");
}
