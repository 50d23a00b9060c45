//! Paths owned by a resource, from the files that its metadata names.

use std::path::Path;

use ecow::EcoString;
use kilter_model::{Attributes, TypeSchema};
use kilter_process::trust::TrustPolicy;

use super::Owns;

/// Maximum size of a list, in bytes. The longest lists of Debian have 4 MB.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Returns the wanted paths that a resource owns. Starts no process. As root, does not read files that another
/// user can change.
pub(crate) fn owned(
    owns: &Owns,
    schema: &TypeSchema,
    trust: &TrustPolicy,
    (name, should): (&str, &Attributes),
    is_wanted: &dyn Fn(&str) -> bool,
) -> Vec<EcoString> {
    let lists = owns.lists(schema, name, should);
    let Some(list) = lists.into_iter().find(|list| list.is_file()) else { return Vec::new() };
    let Ok(bytes) = trust.read(&list, MAX_LIST_BYTES) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let is_everybodys = |path: &&str| owns.is_shared(path) && Path::new(path).is_dir();
    let paths = text.lines().filter(|path| is_wanted(path)).filter(|path| !is_everybodys(path));
    paths.map(EcoString::from).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::metadata::Metadata;

    /// A package with its lists in a temporary directory.
    struct Lists {
        directory: tempfile::TempDir,
        trust: TrustPolicy,
    }

    impl Lists {
        fn new() -> Lists {
            Lists { directory: tempfile::tempdir().unwrap(), trust: TrustPolicy::any() }
        }

        fn list(&self, name: &str, lines: &str) -> std::path::PathBuf {
            let path = self.directory.path().join(name);
            fs::write(&path, lines).unwrap();
            path
        }

        fn owned(&self, name: &str, wanted: &[&str]) -> Vec<EcoString> {
            let at = self.directory.path().display();
            let metadata = format!(
                "provider:\n  type: pack\n  invoke: simple\n  suitable: true\n  owns:\n    \
                 lists: ['{at}/${{vars.name}}.list', '{at}/${{vars.name}}:x.list']\n    shared: [/*, /usr/**]\n"
            );
            let metadata = Metadata::parse(&metadata, "pack").unwrap();
            metadata.owned(&self.trust, (name, &Attributes::default()), &|path| wanted.contains(&path))
        }
    }

    #[test]
    fn first_existing_list_gives_owned_paths() {
        let lists = Lists::new();
        assert_eq!(lists.owned("a", &["/etc/a"]), [""; 0], "nothing is there yet");
        lists.list("a:x.list", "/etc/a\n/etc/b");
        assert_eq!(lists.owned("a", &["/etc/a", "/etc/b", "/etc/c"]), ["/etc/a", "/etc/b"]);
        lists.list("a.list", "/etc/b\n");
        assert_eq!(lists.owned("a", &["/etc/a", "/etc/b"]), ["/etc/b"]);
    }

    #[test]
    fn shared_directories_are_not_owned_but_their_files_are() {
        let lists = Lists::new();
        lists.list("a.list", "/etc\n/usr/bin\n/usr/bin/env\n/etc/nothing-here\n");
        let wanted = ["/etc", "/usr/bin", "/usr/bin/env", "/etc/nothing-here"];
        assert_eq!(lists.owned("a", &wanted), ["/usr/bin/env", "/etc/nothing-here"]);
    }

    #[test]
    fn untrusted_or_invalid_list_is_ignored() {
        let lists = Lists { trust: TrustPolicy::root(), ..Lists::new() };
        let path = lists.list("a.list", "/etc/a\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(lists.owned("a", &["/etc/a"]), [""; 0], "everybody can change it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(lists.directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(lists.owned("a", &["/etc/a"]), [""; 0], "everybody can lay another one there");
        let lists = Lists::new();
        fs::create_dir(lists.directory.path().join("a.list")).unwrap();
        assert_eq!(lists.owned("a", &["/etc/a"]), [""; 0]);
        fs::create_dir(lists.directory.path().join("b")).unwrap();
        lists.list("c.list", "/etc/a\n");
        assert_eq!(lists.owned("b/../c", &["/etc/a"]), [""; 0], "a name leads nowhere else");
        File::create(lists.directory.path().join("d.list")).unwrap().set_len(MAX_LIST_BYTES + 1).unwrap();
        assert_eq!(lists.owned("d", &["", "/etc/a"]), [""; 0], "it is too long");
        fs::write(lists.directory.path().join("e.list"), b"/etc/\xff\n/etc/a\n").unwrap();
        assert_eq!(lists.owned("e", &["/etc/a"]), ["/etc/a"]);
    }
}
