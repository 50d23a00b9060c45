//! Images of disks, with the real qemu-img.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Ended, Place};

/// Returns an attribute of an image as qemu-img describes it.
fn info(path: &str, name: &str) -> serde_json::Value {
    let info = std::process::Command::new("qemu-img").args(["info", "--output=json", path]).output();
    let info = info.expect("qemu-img is part of qemu-utils: apt-get install qemu-utils").stdout;
    serde_json::from_slice::<serde_json::Value>(&info).unwrap()[name].take()
}

#[test]
fn disks_are_made_and_grow_but_never_shrink() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name).display().to_string();
    let manifest = |size: &str| {
        let text = format!(
            "resources:\n  virtual_disk:\n    {web}: {{size: {size}, backing: {base}}}\n    {base}: {{size: 1M}}\n    \
             {data}: {{size: 1024K}}\n  file[{data}]: {{mode: '0640'}}\n",
            web = at("web.qcow2"),
            base = at("base.qcow2"),
            data = at("data.img")
        );
        place.file("m.yaml", text)
    };
    let run = |code: i32, args: &[&str]| -> Ended {
        let ended = place.run(args);
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        ended
    };
    let path = manifest("2M");
    run(2, &["plan", &path]);
    assert!(run(0, &["apply", &path]).stdout.contains("4 changed"));
    assert!(run(0, &["apply", &path]).stdout.contains("4 unchanged"));
    assert_eq!(info(&at("web.qcow2"), "full-backing-filename"), at("base.qcow2"));
    assert_eq!(info(&at("data.img"), "virtual-size"), 1 << 20);
    assert_eq!(std::fs::metadata(at("data.img")).unwrap().permissions().mode() & 0o777, 0o640);
    manifest("3M");
    assert!(run(0, &["apply", &path]).stdout.contains("size: 2M → 3M"));
    assert_eq!(info(&at("web.qcow2"), "virtual-size"), 3 << 20);
    manifest("2M");
    for command in ["plan", "apply"] {
        let refused = run(4, &[command, &path]).stdout;
        assert!(refused.contains("kilter does not shrink a disk from 3M to 2M"), "{refused}");
    }
    let undone = run(4, &["undo", "--noop", &format!("virtual_disk[{}]", at("web.qcow2"))]);
    assert!(format!("{}{}", undone.stdout, undone.stderr).contains("kilter does not shrink a disk"), "{undone:?}");
    run(0, &["set", "virtual_disk", &at("data.img"), "ensure=absent"]);
    let undone = run(4, &["undo", "--noop", &format!("virtual_disk[{}]", at("data.img"))]);
    assert!(format!("{}{}", undone.stdout, undone.stderr).contains("the data of the disk is not saved"), "{undone:?}");
}

#[test]
fn disk_is_made_only_from_an_image_of_the_declared_format() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name).display().to_string();
    let set = |code: i32, args: &[&str]| {
        let ended = place.run(&[&["set", "virtual_disk"], args].concat());
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        format!("{}{}", ended.stdout, ended.stderr)
    };
    // Cloud images of some distributions have this name.
    let cloud = at("cloud.img");
    set(0, &[&cloud, "format=qcow2", "size=1M"]);
    let (copy, from) = (at("copy.qcow2"), format!("source={cloud}"));
    let refused = set(4, &[&copy, &from]);
    assert!(refused.contains("cloud.img begins as an image in the format qcow2 does: declare `qcow2`"), "{refused}");
    assert_eq!(place.run(&["set", "--noop", "virtual_disk", &copy, &from]).code, 4, "a plan says so too");
    set(0, &[&copy, &from, "base_format=qcow2", "size=2M"]);
    assert_eq!((info(&copy, "format"), info(&copy, "virtual-size")), ("qcow2".into(), (2 << 20).into()));
    let smaller = set(4, &[&at("small.img"), &from, "base_format=qcow2", "size=512K"]);
    assert!(smaller.contains("the source has 1M, and the image would have 512K"), "{smaller}");
    assert!(set(4, &[&at("x.qcow2"), "ensure=present"]).contains("a new image needs a `size`"));
    assert!(set(1, &[&at("x.img"), "size=1000"]).contains("is not a multiple of 512 bytes"));
    assert!(set(1, &[&at("x.img"), "size=1M", &format!("backing={cloud}")]).contains("has no backing image"));
    let open = at("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = set(4, &[&format!("{open}/x.img"), "size=1M"]);
    assert!(refused.contains("another user could change or replace"), "{refused}");
    assert!(refused.contains("can be written by everybody"), "{refused}");
    // qemu-img would follow the names in the header of an image that another user can change.
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = set(4, &[&copy, "size=4M"]);
    assert!(refused.contains("copy.qcow2 can be written by everybody"), "{refused}");
    assert!(set(1, &[&format!("{copy}/"), "size=1M"]).contains("is not an absolute path"));
    assert!(set(1, &[&at("x.qcow2"), "size=1M", "base_format=raw"]).contains("there is no `backing`"));
    assert!(set(1, &[&at("x.qcow2"), &format!("backing={}", at("x.qcow2"))]).contains("made from itself"));
    set(0, &[&cloud, "ensure=absent"]);
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
    let left = std::fs::read_dir(place.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().is_some_and(|name| name.starts_with(".kilter")));
    assert_eq!(left.count(), 0, "a failure leaves nothing");
}
