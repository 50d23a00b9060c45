//! `kilter plan`: shows pending changes, and saves them as a plan.

use std::path::PathBuf;

use kilter_provider::Durability;
use kilter_runtime::Mode;

use super::exec_options::{ExecOptions, ExitCodeMode};
use super::mold_loop;
use super::pulled;
use crate::cli::PlanArgs;
use crate::exit::Exit;
use crate::load::{Input, Received};
use crate::pull::StoreKind;
use crate::recorder::OnFailure;
use crate::reports::Reports;
use crate::session::Session;
use crate::{load, output, plan_file, providers, signals};

/// Runs the command.
pub(crate) fn run(args: &PlanArgs, session: &Session) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    if args.input.received {
        match Received::read() {
            Ok(received) => session.set_received(received),
            Err(exit) => return exit,
        }
    }
    match pulled::once(&args.source, &args.input, session, StoreKind::Temporary) {
        Ok(None) => planned(args, session),
        Ok(Some(pulled)) => {
            let args = PlanArgs { input: pulled.input.clone(), ..args.clone() };
            pulled.exit(planned(&args, session))
        }
        Err(exit) => exit,
    }
}

/// Plans the manifests of the command line.
fn planned(args: &PlanArgs, session: &Session) -> Exit {
    if let Err(exit) = plan_file::refuse_overwrite(args, session) {
        return exit;
    }
    if args.output.is_some() && !args.released.keeps_all() {
        let hints = ["leave out --output, and give --released to `kilter apply` with the manifest"];
        return output::fail_with("a plan that restores released resources cannot be saved", hints);
    }
    session.set_released(args.released.clone());
    let named: Vec<PathBuf> = args.input.manifests.iter().chain(&args.output).cloned().collect();
    if let Err(exit) = Reports::open(&args.reports, "plan", &named, session) {
        return exit;
    }
    let signer = match plan_file::signer(session, args.sign.as_deref()) {
        Ok(signer) => signer,
        Err(exit) => return exit,
    };
    let pass = ExecOptions {
        mode: Mode::Noop,
        format: args.format,
        jobs: args.jobs.count(),
        durability: Durability::Unflushed,
        exits: ExitCodeMode::Plain,
        even_if_paused: false,
        lock_timeout: std::time::Duration::ZERO,
        on_unrecorded: OnFailure::End,
    };
    let prescription = match args.input.manifests.as_slice() {
        [] => Some(mold_loop::prescription(session, &args.input)),
        _ => None,
    };
    let prescription = match prescription.transpose() {
        Ok(prescription) => prescription,
        Err(exit) => return exit,
    };
    let jobs = args.jobs.given();
    let registry = match prescription {
        Some(_) => mold_loop::registry(session, jobs),
        None => providers::registry_with(session, jobs),
    };
    let registry = match registry {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let loaded = match &prescription {
        Some(prescription) if args.output.is_some() => {
            let what = if prescription.is_choreographed() { "a choreography" } else { "a prescription" };
            return output::fail(format_args!("{what} cannot be saved as a plan: each run generates it again"));
        }
        Some(prescription) if prescription.is_choreographed() => match Reports::refuse_choreography(session) {
            Ok(()) => return prescription.dance(pass, &registry, session),
            Err(exit) => return exit,
        },
        Some(prescription) => prescription.prepare(session, args.format.into(), &registry),
        None => load::load(session, Input::Manifests(&args.input), args.format.into(), &registry),
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let Some(output) = &args.output else { return pass.carry_out(&loaded.prepared, session) };
    let loaded = load::Loaded { prepared: loaded.prepared.kept(), ..loaded };
    let report = match pass.report(&loaded.prepared, session) {
        Ok(done) => done,
        Err(exit) => return exit,
    };
    if report.has_failures() || report.interrupted {
        output::warning(format_args!("the plan is not complete and was not written to {}", output.display()));
        return pass.conclude(&report, session);
    }
    let state = match session.state_dir() {
        Ok(state) => state,
        Err(exit) => return exit,
    };
    // A replay leaves no files behind.
    if session.record.is_replay() {
        return pass.conclude(&report, session);
    }
    match plan_file::write(output, &loaded, &report, &registry, &state, signer.as_ref()) {
        Ok(provenance) => {
            let exit = pass.conclude(&report, session);
            plan_file::written(&provenance, output, session);
            exit
        }
        Err(error) => output::fail(format_args!("cannot write the plan to {}: {error}", output.display())),
    }
}
