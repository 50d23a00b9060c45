//! The type `virtual_disk`: images of the disks of virtual machines, through qemu-img.

mod image;
mod schema;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_process::Invocation;
use kilter_process::trust::{Distrust, TrustPolicy, TrustedFile};
use kilter_provider::{
    AutoEdge, Context, Declaration, Direction, Effect, Match, Mode, PathState, Predict, Provider, ProviderError, Query,
    Relations, Revert, Scope, SideEffects, Suitability, ValidationError, Watch, WatchSource, redacted_outcome,
};

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::lone;
use crate::tool;
use crate::value_text::sealed_like;
use image::{Format, Image, bytes_of, size_text};

/// Package of Debian that contains qemu-img.
const PACKAGE: &str = "qemu-utils";

/// Maximum duration of a call, such as a copy.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Provides the type `virtual_disk`.
pub struct VirtualDiskProvider {
    system: System,
}

/// Declared values of an image.
struct DeclaredDisk<'d> {
    path: &'d str,
    /// Declared format, if any.
    format: Option<&'d str>,
    size: Option<u64>,
    backing: Option<&'d str>,
    source: Option<&'d str>,
    base_format: Option<&'d str>,
}

impl<'d> DeclaredDisk<'d> {
    fn of(path: &'d str, should: &'d Attributes) -> DeclaredDisk<'d> {
        DeclaredDisk {
            path,
            format: should.text("format"),
            size: should.get("size").and_then(Value::to_text).and_then(|size| bytes_of(&size)),
            backing: should.text("backing"),
            source: should.text("source"),
            base_format: should.text("base_format"),
        }
    }

    /// Fails if an image cannot get the declared values.
    fn check_change(&self, image: &Image) -> Result<(), EcoString> {
        if self.backing.is_some_and(|backing| image.backing.as_deref() != Some(backing)) {
            let found = image.backing.as_deref().unwrap_or("none");
            return Err(eco_format!(
                "its backing image is {found}, and kilter does not change it: remove the image first"
            ));
        }
        match self.size {
            Some(size) if size < image.size => Err(eco_format!(
                "kilter does not shrink a disk from {} to {}, because it would lose data",
                size_text(image.size),
                size_text(size)
            )),
            // A header can name a file with the data, which qemu-img would change too.
            Some(size) if size > image.size => trusted(self.path, TrustPolicy::current().open(Path::new(self.path)))
                .map_err(|why| eco_format!("{why}: a machine that uses it must be shut down first")),
            _ => Ok(()),
        }
    }

    /// Fails if no new image can be made. Returns the image that it is made from, if that exists.
    fn check_creation(&self) -> Result<Option<Image>, EcoString> {
        let Some(base) = self.backing.or(self.source) else {
            let why = "a new image needs a `size`, a `backing` or a `source`";
            return if self.size.is_some() { Ok(None) } else { Err(why.into()) };
        };
        // qemu-img would read the files that an image of another user names.
        trusted(base, TrustPolicy::current().open(Path::new(base)))?;
        let found = Image::read(base, self.base_format)?;
        match (&found, self.size) {
            (Some(found), Some(size)) if self.source.is_some() && size < found.size => Err(eco_format!(
                "the source has {}, and the image would have {}",
                size_text(found.size),
                size_text(size)
            )),
            _ => Ok(found),
        }
    }
}

impl VirtualDiskProvider {
    /// Creates a provider for the images of a system.
    pub fn new(system: System) -> VirtualDiskProvider {
        VirtualDiskProvider { system }
    }

    fn state(name: &EcoString, should: Option<&Attributes>) -> State {
        let format = should.and_then(|should| should.text("format"));
        let image = match Image::read(name, format) {
            Ok(Some(image)) => image,
            Ok(None) => return State::absent(name.clone()),
            // A removal needs no header.
            Err(_) if should.is_some_and(is_absent) && is_file(name) => {
                return State::present(name.clone(), Attributes::from_iter([("ensure", "present"), ("path", name)]));
            }
            Err(why) => return State { unreadable: Some(why), ..State::absent(name.clone()) },
        };
        let mut attributes = Attributes::with_capacity(5);
        attributes.push("ensure", "present");
        attributes.push("path", name.clone());
        attributes.push("format", image.format.name());
        attributes.push("size", size_text(image.size));
        if let Some(backing) = image.backing {
            attributes.push("backing", backing);
        }
        State::present(name.clone(), attributes)
    }

    fn qemu_img(&self, cx: &Context<'_>, words: &[&str]) -> Result<(), EcoString> {
        let invocation = Invocation::new("qemu-img").args(words).env("LC_ALL", "C");
        tool::run(self.system.runner(), cx, invocation, DEADLINE)
    }

    fn create(&self, cx: &Context<'_>, disk: &DeclaredDisk<'_>) -> Result<(), EcoString> {
        let base = disk.check_creation()?;
        if let (None, Some(missing)) = (&base, disk.backing.or(disk.source)) {
            return Err(eco_format!("there is no image {missing}"));
        }
        let of_base = base.as_ref().map_or("raw", |base| base.format.name());
        let format = Format::of(disk.format, disk.path).name();
        let size = disk.size.map(|size| size.to_string());
        let make = |path: &str| match (disk.source, disk.backing) {
            (Some(source), _) => {
                self.qemu_img(cx, &["convert", "-q", "-f", of_base, "-O", format, source, path])?;
                match (&size, disk.size > base.as_ref().map(|base| base.size)) {
                    (Some(size), true) => self.qemu_img(cx, &["resize", "-q", "-f", format, path, size]),
                    _ => Ok(()),
                }
            }
            (None, backing) => {
                let mut words = vec!["create", "-q", "-f", format];
                if let Some(backing) = backing {
                    words.extend(["-b", backing, "-F", of_base]);
                }
                words.push(path);
                words.extend(size.as_deref());
                self.qemu_img(cx, &words)
            }
        };
        // The temporary file means nothing to the user.
        lone::create(disk.path, cx, &mut |path| make(path).map_err(|why| why.replace(path, disk.path)))
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let path = change.name.as_str();
        let none = Attributes::new();
        // Values from other resources have not been validated before.
        if let Some(problem) = schema::problems(path, change.should.unwrap_or(&none)).pop() {
            return Err(eco_format!("{problem}"));
        }
        check_directory(path)?;
        let Some(should) = change.should.filter(|should| !is_absent(should)) else {
            check_removal(path)?;
            return lone::remove(path, cx).map_err(|error| eco_format!("{error}"));
        };
        let disk = DeclaredDisk::of(path, should);
        let Some(image) = Image::read(path, disk.format)? else { return self.create(cx, &disk) };
        disk.check_change(&image)?;
        match disk.size {
            Some(size) if size > image.size => {
                let words = ["resize", "-q", "-f", image.format.name(), path, &size.to_string()];
                self.qemu_img(cx, &words)
            }
            _ => Ok(()),
        }
    }
}

fn is_file(path: &str) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

/// Fails if another user can change or replace an image while a program works on it.
fn trusted(path: &str, checked: Result<TrustedFile, Distrust>) -> Result<(), EcoString> {
    match checked {
        Err(Distrust::Changeable { component, by, .. }) => {
            Err(eco_format!("another user could change or replace {path}, because {} {by}", component.display()))
        }
        Ok(_) | Err(Distrust::Io { .. }) => Ok(()),
    }
}

/// Fails if another user can replace the image.
fn check_directory(path: &str) -> Result<(), EcoString> {
    let directory = Path::new(path).parent().unwrap_or(Path::new("/"));
    trusted(path, TrustPolicy::current().directory(directory))
}

/// Fails if the image belongs to another user.
fn check_removal(path: &str) -> Result<(), EcoString> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !kilter_process::trust::is_own(&found) => Err(eco_format!(
            "it belongs to the user with the number {}, so that a machine may use it: shut the machine down, or change \
             the owner",
            found.uid()
        )),
        _ => Ok(()),
    }
}

/// Fails if a change is certain to fail. Another resource may create the directory or the base before.
fn preview(change: &Change<'_>) -> Result<(), EcoString> {
    check_directory(change.name)?;
    let Some(should) = change.should.filter(|should| !is_absent(should)) else { return check_removal(change.name) };
    let disk = DeclaredDisk::of(change.name, should);
    match Image::read(change.name, disk.format)? {
        Some(image) => disk.check_change(&image),
        None => disk.check_creation().map(drop),
    }
}

impl Provider for VirtualDiskProvider {
    crate::builtin::describe!("virtual_disk", "qemu", schema::schema, [relations, predict, revert, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&["qemu-img"], Some(PACKAGE))
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::Named(wanted) => {
                Ok(wanted.iter().map(|one| VirtualDiskProvider::state(one.name, one.should)).collect())
            }
            Query::All => Ok(Vec::new()),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match mode {
                Mode::Apply => self.change(cx, change),
                Mode::Preview => preview(change),
            };
            redacted_outcome(change, done.map_or_else(Outcome::failed, |()| Outcome::done()))
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        schema::problems(name, should)
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for one in resources.iter_mut() {
            if let Some(given) = one.should.get("size")
                && let Some(bytes) = given.unwrap_sensitive().to_text().and_then(|size| bytes_of(&size))
            {
                let size = sealed_like(given, size_text(bytes));
                one.should.set("size", size);
            }
        }
        vec![Vec::new(); resources.len()]
    }
}

impl Relations for VirtualDiskProvider {
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let direction = if is_absent(should) { Direction::After } else { Direction::Before };
        add(AutoEdge { direction, ..AutoEdge::require("package", PACKAGE) });
        for type_name in ["file", "mount"] {
            add(AutoEdge { by: Match::Ancestor, direction, ..AutoEdge::require(type_name, name) });
        }
        if is_absent(should) {
            return;
        }
        add(AutoEdge { direction: Direction::After, ..AutoEdge::require("file", name) });
        for base in ["backing", "source"].into_iter().filter_map(|attribute| should.text(attribute)) {
            for type_name in ["virtual_disk", "file", "mount"] {
                add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require(type_name, base) });
            }
        }
    }

    fn names_are_paths(&self) -> bool {
        true
    }
}

impl Predict for VirtualDiskProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        Some(vec![Effect::Path { path: change.name.clone(), node: PathState::Unknown }])
    }
}

impl Revert for VirtualDiskProvider {
    fn revert_state(&self, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
        match is.exists {
            false => Ok(Attributes::from_iter([("ensure", "absent")])),
            true if is_absent(should) => Err("the data of the disk is not saved".into()),
            true => Err("kilter does not shrink a disk".into()),
        }
    }
}

impl Watch for VirtualDiskProvider {
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Path { path: name.into(), scope: Scope::This }]
    }
}
