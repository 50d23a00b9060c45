//! `kilter man`: the manual pages.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::exit::Exit;
use crate::output;

pub(crate) fn run(args: &ManArgs) -> Exit {
    let mut command = Cli::parser();
    command.build();
    match &args.directory {
        None => match page(&command, "kilter") {
            Ok(page) => output::bytes(&page),
            Err(error) => output::fail(format_args!("cannot make the manual page: {error}")),
        },
        Some(directory) => match write(&command, directory) {
            Ok(()) => Exit::Done,
            Err(error) => output::fail(format_args!("cannot write manual pages to {}: {error}", directory.display())),
        },
    }
}

/// Writes one page for the command and for each of its subcommands.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("kilter.1"), page(command, "kilter")?)?;
    write_below(command, "kilter", directory)
}

fn write_below(command: &Command, above: &str, directory: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" || above == "kilter") {
        let name = format!("{above}-{}", inner.get_name());
        std::fs::write(directory.join(format!("{name}.1")), page(inner, &name)?)?;
        // The subcommands of `help` would repeat all pages.
        if inner.get_name() != "help" {
            write_below(inner, &name, directory)?;
        }
    }
    Ok(())
}

fn page(command: &Command, title: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(title.to_uppercase()).manual("kilter").render(&mut page)?;
    Ok(page)
}
