//! `kilter apply`: brings the machine to the state that is declared, once.

use kilter_provider::Durability;
use kilter_runtime::Mode;

use super::pass::{Exits, Pass};
use super::routine;
use crate::cli::{ApplyArgs, Global};
use crate::exit::Exit;
use crate::load::{self, Loaded};
use crate::plan_file::{self, PlanFile};
use crate::render::diff::visible;
use crate::{providers, say, signals};

/// Runs the command.
pub(crate) fn run(args: &ApplyArgs, global: &Global) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    let pass = Pass {
        mode: if args.noop { Mode::Noop } else { Mode::Apply },
        format: args.format,
        jobs: args.jobs.count(),
        durability: if args.no_flush { Durability::Unflushed } else { Durability::Flushed },
        exits: if args.detailed_exitcodes { Exits::Detailed } else { Exits::Plain },
    };
    if args.input.manifests.is_empty() {
        return prescribed(args, pass, global);
    }
    let registry = match providers::registry_with(global, args.jobs.given()) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let loaded = match plan_file::read(&args.input, global) {
        Ok(Some(plan)) => load::prepare_plan(&plan, args.format.into(), &registry)
            .and_then(|loaded| still_planned(&plan, &loaded, pass, global).map(|()| loaded)),
        Ok(None) => load::prepare(&args.input, args.format.into(), &registry),
        Err(exit) => return exit,
    };
    match loaded {
        // The texts are not needed any more, and may be most of the memory.
        Ok(Loaded { prepared, .. }) => {
            let exit = pass.carry_out(&prepared, global);
            // The process ends: see `carry_out`.
            std::mem::forget(prepared);
            exit
        }
        Err(exit) => exit,
    }
}

/// Applies what is prescribed: by the choreographer, or else by the engine.
fn prescribed(args: &ApplyArgs, pass: Pass, global: &Global) -> Exit {
    let registry = match routine::registry(global, args.jobs.given()) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let prescription = match routine::prescription(&args.input) {
        Ok(prescription) => prescription,
        Err(exit) => return exit,
    };
    if prescription.is_choreographed() {
        return prescription.dance(pass, &registry, global);
    }
    match prescription.prepare(args.format.into(), &registry) {
        Ok(Loaded { prepared, .. }) => pass.carry_out(&prepared, global),
        Err(exit) => exit,
    }
}

/// Sees to it that what would change now is what the plan says.
fn still_planned(plan: &PlanFile, loaded: &Loaded<'_>, pass: Pass, global: &Global) -> Result<(), Exit> {
    let quiet = Global { quiet: true, ..global.clone() };
    let report = Pass { mode: Mode::Noop, ..pass }.report(&loaded.prepared, &quiet)?;
    if report.interrupted {
        return Err(signals::exit().unwrap_or(Exit::Interrupted));
    }
    let moved = plan.moved(&report);
    if moved.is_empty() {
        return Ok(());
    }
    say::error("the machine is no longer as it was when the plan was made; nothing was changed");
    moved.iter().for_each(|line| say::line(format_args!("  {}", visible(line))));
    say::hint("make the plan anew with `kilter plan -o FILE`");
    Err(Exit::NotStarted)
}
