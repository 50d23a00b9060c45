//! Session of a command: everything that it takes from its arguments and its environment, once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use kilter_process::trust::TrustPolicy;
use kilter_provider::{Context, Interrupt, Log, World};
use kilter_recording::RecordMode;
use kilter_script::mold::RawLog;

use crate::cli::Global;
use crate::cli::ReleasedArgs;
use crate::devices::{DeviceTarget, OpenDevice};
use crate::early_processes::EarlyProcesses;
use crate::exit::Exit;
use crate::load::Received;
use crate::mold::OpenedMold;
use crate::reported_warnings::ReportedWarnings;
use crate::reports::Reports;
use crate::run_inputs::RunInputs;
use crate::{mold, output, paths, signals, trust, world};

/// Session of a command.
pub(crate) struct Session {
    /// Options of the command line.
    pub(crate) global: Global,
    /// Destination of external queries.
    pub(crate) record: RecordMode,
    /// Trust rule: the users that may decide what kilter does.
    pub(crate) trust: TrustPolicy,
    /// World that the machine shares with others; without an address, a world of this machine alone.
    pub(crate) world: Arc<dyn World>,
    /// Warnings of the last read of the manifests.
    pub(crate) warnings: ReportedWarnings,
    /// Log of the scripts of mold.
    pub(crate) channel3: Option<Arc<RawLog>>,
    /// Word of the command.
    command: &'static str,
    /// Treatment of resources that left the manifests.
    released: OnceLock<ReleasedArgs>,
    /// Manifests and facts of the run, for the history.
    inputs: Mutex<RunInputs>,
    /// Processes before the first resource.
    pub(crate) early_processes: EarlyProcesses,
    /// Inputs of the run, if another machine has compiled them.
    received: OnceLock<Received>,
    mold: OnceLock<OpenedMold>,
    /// Device of the session, if it is connected.
    device: OnceLock<OpenDevice>,
    reports: OnceLock<Reports>,
    state_dir: Option<PathBuf>,
    /// State directory of this machine, for data about its scripts.
    local_state_dir: OnceLock<PathBuf>,
    /// This session, for code that outlives a borrow of it.
    me: Weak<Session>,
}

impl Session {
    /// Opens the session of a command line.
    ///
    /// # Errors
    /// If an option cannot be used; reported.
    pub(crate) fn open(global: &Global, record: RecordMode, command: &'static str) -> Result<Arc<Session>, Exit> {
        Session::open_on(None, global, record, command)
    }

    /// Opens the session of a command line for a device, or for this machine.
    ///
    /// # Errors
    /// If an option cannot be used; reported.
    pub(crate) fn open_on(
        device: Option<&DeviceTarget>,
        global: &Global,
        record: RecordMode,
        command: &'static str,
    ) -> Result<Arc<Session>, Exit> {
        let trust = trust::policy(global)?;
        let mut global = global.clone();
        let mut state_dir = state_dir(&global);
        let local_state_dir = state_dir.clone();
        if let Some(device) = device {
            global.hostname = Some(device.name.clone());
            // A device has a lock, a journal and a history of its own.
            state_dir = state_dir.map(|state_dir| state_dir.join("devices").join(&device.name));
        }
        let world = world::open(&global, state_dir.clone(), &trust)?;
        // A replay writes nothing.
        let log = global.channel3.as_deref().filter(|_| !record.is_replay());
        let channel3 = log.map(mold::open_log).transpose()?;
        let session = Session::new(global, record, trust, world, channel3.map(Arc::new), state_dir, command);
        if device.is_some() {
            let _ = local_state_dir.map(|directory| session.local_state_dir.set(directory));
        }
        Ok(session)
    }

    /// Opens the session of a command line without these options: only the environment decides.
    pub(crate) fn of_environment() -> Arc<Session> {
        let given = std::env::var_os("KILTER_STATE_DIR").map(PathBuf::from);
        let global = Global { state_dir: given, ..Global::default() };
        let (trust, state_dir) = (trust::usual(), state_dir(&global));
        let world = world::of_this_machine(state_dir.clone(), &trust);
        Session::new(global, RecordMode::Live, trust, world, None, state_dir, "ralsh")
    }

    fn new(
        global: Global,
        record: RecordMode,
        trust: TrustPolicy,
        world: Arc<dyn World>,
        channel3: Option<Arc<RawLog>>,
        state_dir: Option<PathBuf>,
        command: &'static str,
    ) -> Arc<Session> {
        Arc::new_cyclic(|me| Session {
            global,
            record,
            trust,
            world,
            warnings: ReportedWarnings::default(),
            channel3,
            command,
            released: OnceLock::new(),
            inputs: Mutex::default(),
            early_processes: EarlyProcesses::default(),
            received: OnceLock::new(),
            mold: OnceLock::new(),
            local_state_dir: OnceLock::new(),
            device: OnceLock::new(),
            reports: OnceLock::new(),
            state_dir,
            me: me.clone(),
        })
    }

    /// Returns the word of the command.
    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// Sets the treatment of resources that left the manifests, once.
    pub(crate) fn set_released(&self, released: ReleasedArgs) {
        let _ = self.released.set(released);
    }

    /// Returns the treatment of resources that left the manifests.
    pub(crate) fn released(&self) -> ReleasedArgs {
        self.released.get().cloned().unwrap_or_default()
    }

    /// Sets the manifests and facts of the run.
    pub(crate) fn set_inputs(&self, inputs: RunInputs) {
        *self.inputs.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }

    /// Returns the manifests and facts of the run.
    pub(crate) fn inputs(&self) -> RunInputs {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the inputs of the run, if another machine has compiled them.
    pub(crate) fn received(&self) -> Option<&Received> {
        self.received.get()
    }

    /// Sets the inputs that another machine has compiled. Only a new session has none.
    pub(crate) fn set_received(&self, received: Received) {
        let _ = self.received.set(received);
    }

    /// Returns the directory of mold, if given on the command line.
    pub(crate) fn mold(&self) -> Option<&OpenedMold> {
        self.mold.get()
    }

    /// Returns the context of mold's scripts about no resource.
    pub(crate) fn mold_context<'a>(&'a self, mold: &'a OpenedMold) -> Context<'a> {
        self.context(mold.log())
    }

    /// Sets the directory of mold. Only a new session has none.
    pub(crate) fn set_mold(&self, mold: OpenedMold) {
        let _ = self.mold.set(mold);
    }

    /// Returns the device of the session, if it is connected.
    pub(crate) fn device(&self) -> Option<&OpenDevice> {
        self.device.get()
    }

    /// Sets the device. Only a new session has none.
    pub(crate) fn set_device(&self, device: OpenDevice) {
        let _ = self.device.set(device);
    }

    /// Returns the reports of the run, if the command line asks for any.
    pub(crate) fn reports(&self) -> Option<&Reports> {
        self.reports.get()
    }

    /// Sets the reports of the run. Only a new session has none.
    pub(crate) fn set_reports(&self, reports: Reports) {
        let _ = self.reports.set(reports);
    }

    /// Returns a reference for code that outlives a borrow of the session. The session may end earlier.
    pub(crate) fn downgrade(&self) -> Weak<Session> {
        self.me.clone()
    }

    /// Returns the name of this machine in the world.
    pub(crate) fn host(&self) -> &str {
        self.world.host()
    }

    /// Returns the context of calls outside of a run. It has a log, and a signal interrupts the calls.
    pub(crate) fn context<'a>(&'a self, log: &'a dyn Log) -> Context<'a> {
        Context::empty()
            .with_log(log)
            .with_interrupt(Interrupt::new(signals::raised(), None))
            .with_hostname(self.host())
            .with_device(self.device().map(|open| &*open.device))
            .with_strictness(self.global.strict.into())
    }

    /// Returns the state directory: the given or the usual one, if there is one. It is a whole path, because its
    /// content is watched.
    pub(crate) fn state_dir_if_any(&self) -> Option<PathBuf> {
        self.state_dir.clone()
    }

    /// Returns the state directory of this machine, also if the command works on a device.
    pub(crate) fn local_state_dir(&self) -> Option<PathBuf> {
        self.local_state_dir.get().cloned().or_else(|| self.state_dir_if_any())
    }

    /// Returns the state directory.
    ///
    /// # Errors
    /// If there is none; reported.
    pub(crate) fn state_dir(&self) -> Result<PathBuf, Exit> {
        self.state_dir_if_any().ok_or_else(|| {
            output::fail_with("there is no state directory: HOME is not set", ["give one with --state-dir"])
        })
    }

    /// Ends the session: reports a failure of the log, and removes the files of a watch.
    pub(crate) fn close(&self) {
        if let Some(error) = self.channel3.as_ref().and_then(|log| log.failure()) {
            output::warning(format_args!("the log of channel 3 is incomplete: {error}"));
        }
        self.world.leave();
    }
}

fn state_dir(global: &Global) -> Option<PathBuf> {
    match global.state_dir.as_deref().filter(|path| !path.as_os_str().is_empty()) {
        Some(given) => Some(paths::whole(given)),
        None => paths::state_dir(),
    }
}
