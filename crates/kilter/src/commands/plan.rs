//! `kilter plan`: shows what would change, and keeps it.

use kilter_provider::Durability;
use kilter_runtime::Mode;

use super::pass::Pass;
use crate::cli::{Global, PlanArgs};
use crate::exit::Exit;
use crate::plan_file::PlanFile;
use crate::{load, providers, say, signals};

/// Runs the command.
pub(crate) fn run(args: &PlanArgs, global: &Global) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    let registry = providers::registry();
    let loaded = match load::prepare(&args.input, args.format.into(), &registry) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let pass = Pass {
        mode: Mode::Noop,
        format: args.format,
        jobs: args.jobs.count(),
        durability: Durability::Unflushed,
        detailed: false,
    };
    let Some(output) = &args.output else { return pass.carry_out(&loaded.prepared, global) };
    let report = match pass.report(&loaded.prepared, global) {
        Ok(done) => done,
        Err(exit) => return exit,
    };
    if report.has_failures() || report.interrupted {
        say::warning(format_args!("the plan is not complete and was not written to {}", output.display()));
        return pass.conclude(&report, global);
    }
    if let Err(error) = PlanFile::new(&loaded, &report).write(output) {
        return say::fail(format_args!("cannot write the plan to {}: {error}", output.display()));
    }
    pass.conclude(&report, global)
}
