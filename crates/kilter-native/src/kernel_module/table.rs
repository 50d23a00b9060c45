//! Lines of modules-load.d(5) and modprobe.d(5).

use ecow::{EcoString, eco_format};

use crate::line_table::LineEntry;

/// Returns the name that the kernel uses: `-` and `_` are the same.
pub(super) fn plain(name: &str) -> EcoString {
    name.replace('-', "_").into()
}

/// A module that is loaded at the boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BootModule {
    name: EcoString,
}

impl BootModule {
    pub(super) fn new(name: &str) -> BootModule {
        BootModule { name: plain(name) }
    }
}

impl LineEntry for BootModule {
    fn parse(line: &[u8]) -> Option<BootModule> {
        let line = std::str::from_utf8(line).ok()?.trim_ascii();
        (!line.is_empty() && !line.starts_with(['#', ';'])).then(|| BootModule::new(line))
    }

    fn line(&self) -> String {
        format!("{}\n", self.name)
    }

    fn name(&self) -> &EcoString {
        &self.name
    }
}

/// Command of modprobe that kilter manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModprobeCommand {
    Options,
    Blacklist,
}

/// A line of a configuration of modprobe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Command and module.
    id: EcoString,
    pub(super) options: EcoString,
}

impl Setting {
    /// Returns the name of the line of a module.
    pub(super) fn id(command: ModprobeCommand, module: &str) -> EcoString {
        match command {
            ModprobeCommand::Options => eco_format!("options {}", plain(module)),
            ModprobeCommand::Blacklist => eco_format!("blacklist {}", plain(module)),
        }
    }

    pub(super) fn new(command: ModprobeCommand, module: &str, options: &str) -> Setting {
        Setting { id: Setting::id(command, module), options: options.into() }
    }

    /// Returns the command and the module.
    pub(super) fn module(&self) -> &str {
        self.id.split_once(' ').map_or("", |(_, module)| module)
    }
}

impl LineEntry for Setting {
    fn parse(line: &[u8]) -> Option<Setting> {
        let line = std::str::from_utf8(line).ok()?.trim_ascii();
        let mut words = line.split_ascii_whitespace();
        let (command, module) = (words.next()?, words.next()?);
        let options = words.collect::<Vec<_>>().join(" ");
        match command {
            "options" if !options.is_empty() => Some(Setting::new(ModprobeCommand::Options, module, &options)),
            "blacklist" if options.is_empty() => Some(Setting::new(ModprobeCommand::Blacklist, module, "")),
            _ => None,
        }
    }

    fn line(&self) -> String {
        let space = if self.options.is_empty() { "" } else { " " };
        format!("{}{space}{}\n", self.id, self.options)
    }

    fn name(&self) -> &EcoString {
        &self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_they_were_written() {
        for (line, module, options) in [
            ("options nvme_core io_timeout=30 x=\"a,b\"\n", "nvme_core", "io_timeout=30 x=\"a,b\""),
            ("blacklist usb_storage\n", "usb_storage", ""),
        ] {
            let setting = Setting::parse(line.as_bytes()).unwrap();
            assert_eq!((setting.module(), setting.options.as_str(), setting.line().as_str()), (module, options, line));
        }
        assert_eq!(Setting::parse(b"options  a-b\tx=1").unwrap().name(), "options a_b");
        for other in ["", "# options a b", "options a", "install a /bin/false", "alias a b", "blacklist a b"] {
            assert_eq!(Setting::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(BootModule::parse(b"  br-netfilter \n").unwrap().line(), "br_netfilter\n");
        assert!(BootModule::parse(b"; x").is_none() && BootModule::parse(b"\n").is_none());
    }
}
