//! Manifests of a given size.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Returns the content of file `n`: 200 bytes.
pub(crate) fn content(n: usize) -> String {
    let mut text = format!("setting_{n} = value of file number {n}\n");
    while text.len() < 199 {
        let next = if text.len() % 40 == 39 { '\n' } else { 'x' };
        text.push(next);
    }
    text.push('\n');
    text
}

/// Creates a manifest with `count` files in `directory`. In a chain, each file requires the previous one.
pub(crate) fn files(directory: &Path, count: usize, chain: bool) -> PathBuf {
    manifest(directory, |out| {
        for n in 0..count {
            let text = content(n).replace('\n', "\\n");
            write!(out, "  file[{}/f{n:05}]:\n    content: \"{text}\"\n    mode: \"0644\"\n", directory.display())?;
            if chain && n > 0 {
                writeln!(out, "    require: file[{}/f{:05}]", directory.display(), n - 1)?;
            }
        }
        Ok(())
    })
}

/// Creates a manifest with files, directories and links: 600, 200 and 200 of 1,000.
pub(crate) fn mixed(directory: &Path, count: usize) -> PathBuf {
    manifest(directory, |out| {
        for n in 0..count {
            let path = directory.join(format!("m{n:05}"));
            match n % 5 {
                0 => write!(out, "  file[{}]:\n    ensure: directory\n    mode: \"0755\"\n", path.display())?,
                1 => write!(out, "  file[{}]:\n    ensure: link\n    target: /etc/passwd\n", path.display())?,
                _ => {
                    let text = content(n).replace('\n', "\\n");
                    write!(out, "  file[{}]:\n    content: \"{text}\"\n    mode: \"0644\"\n", path.display())?;
                }
            }
        }
        Ok(())
    })
}

/// Creates a manifest with commands whose guard reports that no work is needed.
pub(crate) fn guarded(directory: &Path, count: usize, guard: &str) -> PathBuf {
    manifest(directory, |out| {
        for n in 0..count {
            write!(out, "  exec[guarded {n}]:\n    command: [/bin/false]\n    {guard}\n")?;
        }
        Ok(())
    })
}

fn manifest(directory: &Path, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> PathBuf {
    let path = directory.join("manifest.yaml");
    let mut out = BufWriter::new(File::create(&path).expect("the directory was made before"));
    let written = writeln!(out, "resources:").and_then(|()| write(&mut out)).and_then(|()| out.flush());
    written.expect("there is room for a manifest");
    path
}

/// Creates a CFEngine policy for the same files. It uses `content`, which costs CFEngine less than half of
/// `edit_line`.
pub(crate) fn cfengine(directory: &Path, count: usize) -> PathBuf {
    let mut text = String::from(
        "body common control { bundlesequence => { \"main\" }; }\n\
         body perms m(x) { mode => \"$(x)\"; rxdirs => \"false\"; }\n\
         bundle agent main { files:\n",
    );
    for n in 0..count {
        let _ = writeln!(
            text,
            "\"{}/f{n:05}\" create => \"true\", perms => m(\"0644\"), content => \"{}$(const.n)\";",
            directory.display(),
            content(n).trim_end()
        );
    }
    text.push_str("}\n");
    let path = directory.join("policy.cf");
    std::fs::write(&path, text).expect("there is room for a policy");
    path
}
