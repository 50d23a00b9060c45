//! The calls of systemd (org.freedesktop.systemd1(5)).

use std::time::{Duration, Instant};

use kilter_provider::Context;

use super::bus::{Body, BusCall, BusError, BusMessage, Connection, Reader, Sockets, WaitLimit};
use super::unit;

/// Maximum duration of a call. systemd answers while it reloads, but a reload of thousands of units takes seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum duration of a job. systemd limits most starts and stops to 90 s; a unit may have a longer limit, or none.
const JOB_TIMEOUT: Duration = Duration::from_secs(3600);

const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
pub(super) const UNIT: &str = "org.freedesktop.systemd1.Unit";
pub(super) const SERVICE: &str = "org.freedesktop.systemd1.Service";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// A unit that systemd has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoadedUnit {
    /// Name of the unit. If it was requested by an alias, the name of the aliased unit.
    pub(super) id: String,
    /// `loaded`, `not-found`, `masked`, ….
    pub(super) load: String,
    /// `active`, `inactive`, `failed`, ….
    pub(super) active: String,
}

/// A change of unit files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    Enable,
    Disable,
    Mask,
    Unmask { until_boot: bool },
}

/// An event that concerns units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SystemdEvent {
    /// A unit may have changed.
    Unit(String),
    /// Unit files may have changed.
    Files,
    /// A job has ended: its object and its result.
    Job { job: String, unit: String, result: String },
    /// Nothing that matters.
    Other,
}

/// Connection to systemd for some calls.
pub(super) struct Systemd<'c> {
    connection: Connection,
    cx: Context<'c>,
}

impl<'c> Systemd<'c> {
    pub(super) fn open(sockets: &Sockets, cx: &Context<'c>) -> Result<Systemd<'c>, BusError> {
        let connection = Connection::open(sockets, WaitLimit::of(CALL_TIMEOUT, cx.interrupt()))?;
        Ok(Systemd { connection, cx: *cx })
    }

    /// Continues to use a connection in another call of the provider.
    pub(super) fn on(connection: Connection, cx: &Context<'c>) -> Systemd<'c> {
        Systemd { connection, cx: *cx }
    }

    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }

    fn patience(&self) -> WaitLimit<'c> {
        WaitLimit::of(CALL_TIMEOUT, self.cx.interrupt())
    }

    fn call(&mut self, member: &str, signature: &str, body: Body) -> Result<BusMessage, BusError> {
        let patience = self.patience();
        let begun = Instant::now();
        let answer = self.connection.call(manager(member, signature, body), patience);
        tracing::debug!(member, ms = begun.elapsed().as_millis() as u64, "call of systemd");
        answer
    }

    fn call_all(&mut self, calls: Vec<BusCall<'_>>) -> Result<Vec<Result<BusMessage, BusError>>, BusError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let patience = self.patience();
        let begun = Instant::now();
        let (member, count) = (calls.first().map(|call| call.member.to_owned()).unwrap_or_default(), calls.len());
        let answers = self.connection.call_all(calls, patience);
        tracing::debug!(member, count, ms = begun.elapsed().as_millis() as u64, "calls of systemd");
        answers
    }

    /// Returns all units in memory.
    pub(super) fn units(&mut self) -> Result<Vec<LoadedUnit>, BusError> {
        read_units(&self.call("ListUnits", "", Body::default())?)
    }

    /// Loads units, and returns them in the same order.
    pub(super) fn load(&mut self, units: &[&str]) -> Result<Vec<Result<LoadedUnit, BusError>>, BusError> {
        let call = |unit: &&str| {
            let mut body = Body::default();
            body.strings(&[unit]);
            manager("ListUnitsByNames", "as", body)
        };
        let answers = self.call_all(units.iter().map(call).collect())?;
        let only = |answer: Result<BusMessage, BusError>| {
            let mut units = read_units(&answer?)?;
            units.pop().ok_or(BusError::Malformed("a requested unit is missing"))
        };
        Ok(answers.into_iter().map(only).collect())
    }

    /// Returns the states of the files of units, as they are on the disk. The state of a unit without a file is empty.
    pub(super) fn file_states(&mut self, units: &[&str]) -> Result<Vec<String>, BusError> {
        let call = |unit: &&str| manager("GetUnitFileState", "s", text(unit));
        let answers = self.call_all(units.iter().map(call).collect())?;
        answers
            .into_iter()
            .map(|answer| or_empty(answer, |message| message.reader("s")?.string().map(str::to_owned)))
            .collect()
    }

    /// Returns properties of units: unit, interface, name.
    pub(super) fn properties(
        &mut self,
        wanted: &[(&str, &str, &str)],
    ) -> Result<Vec<Result<Property, BusError>>, BusError> {
        let paths: Vec<String> = wanted.iter().map(|(unit, ..)| unit::path_of(unit)).collect();
        let calls = paths.iter().zip(wanted).map(|(path, (_, interface, name))| {
            let mut body = text(interface);
            body.string(name);
            BusCall { path, interface: PROPERTIES, member: "Get", signature: "ss", body }
        });
        let answers = self.call_all(calls.collect())?;
        Ok(answers.into_iter().map(|answer| answer.map(Property)).collect())
    }

    /// Returns a text property of a unit; empty if the unit does not have it.
    pub(super) fn text(&mut self, unit: &str, interface: &str, name: &str) -> Result<String, BusError> {
        self.property(unit, interface, name, |value| value.text())
    }

    pub(super) fn boolean(&mut self, unit: &str, name: &str) -> Result<bool, BusError> {
        self.property(unit, UNIT, name, |value| value.0.reader("v")?.variant("b")?.boolean())
    }

    /// Returns a time property of a unit in microseconds since 1970.
    pub(super) fn time(&mut self, unit: &str, name: &str) -> Result<u64, BusError> {
        self.property(unit, UNIT, name, |value| value.0.reader("v")?.variant("t")?.u64())
    }

    pub(super) fn number(&mut self, unit: &str, interface: &str, name: &str) -> Result<i32, BusError> {
        self.property(unit, interface, name, |value| value.0.reader("v")?.variant("i")?.i32())
    }

    /// Returns the command of a setting such as `ExecStartPre` that has failed in the last start of a unit.
    pub(super) fn failed_command(&mut self, unit: &str, setting: &str) -> Result<Option<FailedCommand>, BusError> {
        self.property(unit, SERVICE, setting, |value| {
            let mut failed = None;
            value.0.reader("v")?.variant("a(sasbttttuii)")?.array(8, |reader| {
                reader.structure();
                let (path, _arguments, is_ignored) = (reader.string()?, reader.strings()?, reader.boolean()?);
                // Times of the start and the end, of two clocks.
                for _ in 0..4 {
                    reader.u64()?;
                }
                let (_pid, code, status) = (reader.u32()?, reader.i32()?, reader.i32()?);
                if status != 0 && !is_ignored {
                    failed = Some(FailedCommand { path: path.to_owned(), code, status });
                }
                Ok(())
            })?;
            Ok(failed)
        })
    }

    fn property<T: Default>(
        &mut self,
        unit: &str,
        interface: &str,
        name: &str,
        read: impl FnOnce(&Property) -> Result<T, BusError>,
    ) -> Result<T, BusError> {
        let answer = self.properties(&[(unit, interface, name)])?.pop();
        or_empty(answer.ok_or(BusError::Malformed("an answer is missing"))?, |value| read(&value))
    }

    /// Returns the directories with unit files, the most important first.
    pub(super) fn unit_directories(&mut self) -> Result<Vec<String>, BusError> {
        let mut body = text(MANAGER);
        body.string("UnitPath");
        let patience = self.patience();
        let call = BusCall { path: MANAGER_PATH, interface: PROPERTIES, member: "Get", signature: "ss", body };
        let message = self.connection.call(call, patience)?;
        let mut reader = message.reader("v")?.variant("as")?;
        Ok(reader.strings()?.into_iter().map(str::to_owned).collect())
    }

    /// Changes the links of a unit.
    pub(super) fn change_files(&mut self, unit: &str, change: FileChange) -> Result<(), BusError> {
        let mut body = Body::default();
        body.strings(&[unit]);
        let (member, flags): (&str, &[bool]) = match change {
            // Flags: until the next boot; replace links to other files.
            FileChange::Enable => ("EnableUnitFiles", &[false, false]),
            FileChange::Mask => ("MaskUnitFiles", &[false, false]),
            FileChange::Disable => ("DisableUnitFiles", &[false]),
            FileChange::Unmask { until_boot } => ("UnmaskUnitFiles", if until_boot { &[true] } else { &[false] }),
        };
        flags.iter().for_each(|flag| body.u32(u32::from(*flag)));
        let signature = if flags.len() == 2 { "asbb" } else { "asb" };
        self.call(member, signature, body).map(drop)
    }

    /// Makes systemd read all unit files again.
    pub(super) fn reload(&mut self) -> Result<(), BusError> {
        self.call("Reload", "", Body::default()).map(drop)
    }

    /// Queues a job for a unit and waits until it has ended. Returns its result.
    pub(super) fn job(&mut self, member: &str, unit: &str) -> Result<String, BusError> {
        let patience = WaitLimit::of(JOB_TIMEOUT, self.cx.interrupt());
        // The result may arrive before the answer.
        self.connection.subscribe(patience)?;
        self.connection.forget_signals();
        let mut body = text(unit);
        body.string("replace");
        let answer = self.call(member, "ss", body)?;
        let queued = answer.reader("o")?.string()?.to_owned();
        loop {
            match event(&self.connection.signal(patience)?)? {
                SystemdEvent::Job { job, result, .. } if job == queued => return Ok(result),
                _ => {}
            }
        }
    }

    /// Waits for a moment.
    pub(super) fn pause(&self, duration: Duration) -> Result<(), BusError> {
        self.patience().pause(duration)
    }

    pub(super) fn subscribe(&mut self) -> Result<(), BusError> {
        let patience = self.patience();
        self.connection.subscribe(patience)
    }

    /// Waits for the next event.
    pub(super) fn event(&mut self) -> Result<SystemdEvent, BusError> {
        event(&self.connection.signal(WaitLimit::unlimited(self.cx.interrupt()))?)
    }
}

/// Value of a property.
pub(super) struct Property(BusMessage);

/// Command of a unit that has failed.
pub(super) struct FailedCommand {
    pub(super) path: String,
    /// Kind of its end, as `ExecMainCode`.
    pub(super) code: i32,
    /// Exit status, or number of the signal.
    pub(super) status: i32,
}

impl Property {
    fn text(&self) -> Result<String, BusError> {
        self.0.reader("v")?.variant("s")?.string().map(str::to_owned)
    }
}

fn manager<'a>(member: &'a str, signature: &'a str, body: Body) -> BusCall<'a> {
    BusCall { path: MANAGER_PATH, interface: MANAGER, member, signature, body }
}

fn text(text: &str) -> Body {
    let mut body = Body::default();
    body.string(text);
    body
}

/// Returns the empty value if systemd refuses a question, because the unit has no such property or file.
fn or_empty<A, T: Default>(
    answer: Result<A, BusError>,
    read: impl FnOnce(A) -> Result<T, BusError>,
) -> Result<T, BusError> {
    match answer {
        Ok(answer) => read(answer),
        Err(BusError::Refused { .. }) => Ok(T::default()),
        Err(error) => Err(error),
    }
}

fn read_units(message: &BusMessage) -> Result<Vec<LoadedUnit>, BusError> {
    let mut units = Vec::new();
    message.reader("a(ssssssouso)")?.array(8, |reader| {
        reader.structure();
        let (id, _description, load) = (reader.string()?, reader.string()?, reader.string()?);
        units.push(LoadedUnit { id: id.into(), load: load.into(), active: reader.string()?.into() });
        let (_sub, _following, _path) = (reader.string()?, reader.string()?, reader.string()?);
        let (_job, _job_type, _job_path) = (reader.u32()?, reader.string()?, reader.string()?);
        Ok(())
    })?;
    Ok(units)
}

fn event(signal: &BusMessage) -> Result<SystemdEvent, BusError> {
    match (signal.interface.as_str(), signal.member.as_str()) {
        (MANAGER, "JobRemoved") => {
            let mut reader = signal.first("uoss")?;
            let _id = reader.u32()?;
            let (job, unit) = (reader.string()?.to_owned(), reader.string()?.to_owned());
            Ok(SystemdEvent::Job { job, unit, result: reader.string()?.into() })
        }
        (MANAGER, "UnitFilesChanged") => Ok(SystemdEvent::Files),
        // True before the reload, false after it.
        (MANAGER, "Reloading") => {
            Ok(if signal.first("b")?.boolean()? { SystemdEvent::Other } else { SystemdEvent::Files })
        }
        (PROPERTIES, "PropertiesChanged") if signal.first("s")?.string()? == UNIT => {
            Ok(unit::of_path(&signal.path).map_or(SystemdEvent::Other, SystemdEvent::Unit))
        }
        // UnitNew and UnitRemoved too: a check loads a unit, and systemd forgets it after the check.
        _ => Ok(SystemdEvent::Other),
    }
}

impl<'a> Reader<'a> {
    /// Reads a variant with a value of this type.
    fn variant(mut self, signature: &str) -> Result<Reader<'a>, BusError> {
        if self.signature()? != signature {
            return Err(BusError::Malformed("a property has another type than the documented one"));
        }
        Ok(self)
    }
}
