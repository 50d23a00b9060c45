//! The floor: only the system calls that the work needs.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::run::{Cost, least, once};
use super::workload::content;

/// Runs this program again as the floor of a measurement, so that its cost is measured in the same way.
pub(crate) fn cost(times: usize, what: &str, directory: impl Fn() -> PathBuf, count: usize) -> Cost {
    let own = std::env::current_exe().expect("this program has a path");
    least((0..times).map(|_| {
        let mut command = Command::new(&own);
        command.env("KILTER_FLOOR", what).arg(directory()).arg(count.to_string());
        once(command)
    }))
}

/// Performs the bare work if this process was started for it.
pub(crate) fn serve() -> bool {
    let Ok(what) = std::env::var("KILTER_FLOOR") else { return false };
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("a directory"));
    let count: usize = arguments.next().and_then(|n| n.parse().ok()).expect("a count");
    match what.as_str() {
        "nothing" => {}
        "check" => check(&directory, count),
        "write" => write(&directory, count),
        "write durably" => {
            write(&directory, count);
            rustix::fs::syncfs(File::open(&directory).expect("it exists")).expect("the file system can be written");
        }
        "spawn" => spawn(count),
        "access" => access(count),
        other => panic!("unknown floor {other}"),
    }
    true
}

fn check(directory: &Path, count: usize) {
    let mut buffer = [0u8; 4096];
    let mut path = directory.join("x");
    for n in 0..count {
        path.set_file_name(format!("f{n:05}"));
        let mut file = File::open(&path).expect("the file was made before");
        let found = file.metadata().expect("the file is open");
        assert_eq!(found.permissions().mode() & 0o7777, 0o644);
        let length = found.len() as usize;
        file.read_exact(&mut buffer[..length]).expect("the file is that long");
        assert!(buffer[..length] == *content(n).as_bytes());
    }
}

fn write(directory: &Path, count: usize) {
    for n in 0..count {
        let (path, temporary) = (directory.join(format!("f{n:05}")), directory.join(format!(".t{n:05}")));
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary).expect("a new file");
        file.write_all(content(n).as_bytes()).expect("there is room");
        file.set_permissions(Permissions::from_mode(0o644)).expect("the file is ours");
        drop(file);
        fs::rename(&temporary, &path).expect("both are in one directory");
    }
}

fn spawn(count: usize) {
    for _ in 0..count {
        let status = Command::new("/usr/bin/test")
            .args(["-e", "/etc/passwd"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()));
    }
}

fn access(count: usize) {
    for _ in 0..count {
        assert!(fs::symlink_metadata("/etc/passwd").is_ok());
    }
}
