//! `kilter apply`: brings the machine to the declared state, once.

use kilter_provider::Durability;
use kilter_runtime::Mode;

use super::confirm::PendingApply;
use super::exec_options::{ExecOptions, ExitCodeMode};
use super::mold_loop;
use super::pulled;
use crate::cli::ApplyArgs;
use crate::exit::Exit;
use crate::load::{self, Input, Received};
use crate::maintenance::MaintenanceWindow;
use crate::pull::StoreKind;
use crate::recorder::OnFailure;
use crate::reports::Reports;
use crate::session::Session;
use crate::{output, pauses, plan_file, providers, signals};

/// Time for the confirmation by a command.
const CONFIRM_WITHIN: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(args: &ApplyArgs, session: &Session) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    if let Err(exit) = check_window(args) {
        return exit;
    }
    if args.input.received {
        match Received::read() {
            Ok(received) => session.set_received(received),
            Err(exit) => return exit,
        }
    }
    if let Err(exit) = Reports::open(&args.reports, "apply", &args.input.manifests, session) {
        return exit;
    }
    let pass = ExecOptions {
        mode: if args.noop { Mode::Noop } else { Mode::Apply },
        format: args.format,
        jobs: args.jobs.count(),
        durability: if args.no_flush { Durability::Unflushed } else { Durability::Flushed },
        exits: if args.detailed_exitcodes { ExitCodeMode::Detailed } else { ExitCodeMode::Plain },
        even_if_paused: args.even_if_paused,
        lock_timeout: args.lock_timeout.unwrap_or_default(),
        on_unrecorded: OnFailure::End,
    };
    let state_dir = session.state_dir_if_any().filter(|_| pass.mode == Mode::Apply && !args.even_if_paused);
    if let Some(Err(exit)) = state_dir.as_deref().map(pauses::refuse) {
        return exit;
    }
    session.set_released(args.released.clone());
    let is_confirmed = args.confirm_within.is_some() || args.health.is_some();
    if is_confirmed && pass.mode == Mode::Apply {
        return confirmed(args, pass, session);
    }
    applied(args, pass, session)
}

/// Refuses an apply outside of its maintenance windows.
fn check_window(args: &ApplyArgs) -> Result<(), Exit> {
    let windows = &args.maintenance_window;
    let now = jiff::Timestamp::now();
    if args.noop || windows.is_empty() || windows.iter().any(|window| window.is_open(now)) {
        return Ok(());
    }
    let windows: Vec<&str> = windows.iter().map(MaintenanceWindow::text).collect();
    let now = now.strftime("%Y-%m-%d %H:%M UTC");
    output::error(format_args!(
        "nothing was changed: {now} is outside of the maintenance window {}",
        windows.join("; ")
    ));
    Err(Exit::OutsideWindow)
}

/// Applies, and undoes the changes without a confirmation.
fn confirmed(args: &ApplyArgs, pass: ExecOptions, session: &Session) -> Exit {
    let within = args.confirm_within.unwrap_or(CONFIRM_WITHIN);
    let pending = match PendingApply::begin(session, within, args.health.as_deref()) {
        Ok(pending) => pending,
        Err(exit) => return exit,
    };
    match applied(args, pass, session) {
        exit @ Exit::NotStarted => {
            pending.cancel();
            exit
        }
        exit => pending.wait(exit, session),
    }
}

fn applied(args: &ApplyArgs, pass: ExecOptions, session: &Session) -> Exit {
    let kind = if args.noop { StoreKind::Temporary } else { StoreKind::Stored };
    match pulled::once(&args.source, &args.input, session, kind) {
        Ok(None) => applied_files(args, pass, session),
        Ok(Some(pulled)) => {
            let args = ApplyArgs { input: pulled.input.clone(), ..args.clone() };
            pulled.exit(applied_files(&args, pass, session))
        }
        Err(exit) => exit,
    }
}

/// Applies the manifests of the command line.
fn applied_files(args: &ApplyArgs, pass: ExecOptions, session: &Session) -> Exit {
    if args.input.manifests.is_empty() {
        return prescribed(args, pass, session);
    }
    let registry = match providers::registry_with(session, args.jobs.given()) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let (input, provenance) = match plan_file::read(args, session) {
        Ok(Some(mut plan)) => {
            let provenance = plan.provenance.take();
            provenance.iter().for_each(|provenance| plan_file::introduce(provenance, session));
            (Input::Plan(Box::new(plan)), provenance)
        }
        Ok(None) => (Input::Manifests(&args.input), None),
        Err(exit) => return exit,
    };
    // The texts are no longer needed, and may use most of the memory. A pattern `Loaded { prepared, .. }` would keep
    // them until the end of the match.
    match load::load(session, input, args.format.into(), &registry).map(|loaded| loaded.prepared) {
        Ok(prepared) if provenance.is_some() && pass.mode == Mode::Apply => {
            // The list of applied plans is written under the same lock.
            let _lock = match pass.lock_or_borrow(Some(&prepared), session) {
                Ok(lock) => lock,
                Err(exit) => return exit,
            };
            provenance.iter().for_each(|plan| session.set_inputs(session.inputs().of_plan(&plan.id)));
            let report = match pass.report(&prepared, session) {
                Ok(report) => report,
                Err(exit) => return exit,
            };
            provenance.iter().for_each(|provenance| plan_file::record_applied(provenance, &report, session));
            pass.conclude(&report, session)
        }
        Ok(prepared) => {
            let exit = pass.carry_out(&prepared, session);
            // The process ends: see `carry_out`.
            std::mem::forget(prepared);
            exit
        }
        Err(exit) => exit,
    }
}

/// Applies a prescription: with the choreographer, or else with the engine.
fn prescribed(args: &ApplyArgs, pass: ExecOptions, session: &Session) -> Exit {
    let registry = match mold_loop::registry(session, args.jobs.given()) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let prescription = match mold_loop::prescription(session, &args.input) {
        Ok(prescription) => prescription,
        Err(exit) => return exit,
    };
    if prescription.is_choreographed() {
        if let Err(exit) = Reports::refuse_choreography(session) {
            return exit;
        }
        return prescription.dance(pass, &registry, session);
    }
    match prescription.prepare(session, args.format.into(), &registry).map(|loaded| loaded.prepared) {
        Ok(prepared) => pass.carry_out(&prepared, session),
        Err(exit) => exit,
    }
}
