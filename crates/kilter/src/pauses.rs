//! Pauses of the runs with one state directory. They are stored there, so that they survive the end of a run.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_runtime::Pause;
use serde_json::{Value as Json, json};

use crate::exit::Exit;
use crate::render::status::pause_line;
use crate::users::user_name;
use crate::{durable, output};

/// Name of the file in the state directory.
const NAME: &str = "pauses";

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Pauses of one state directory.
#[derive(Debug)]
pub(crate) struct Pauses {
    path: PathBuf,
    list: Vec<PauseRecord>,
    /// Number of the last pause, which may be over. Numbers are not reused: `kilter resume ID` would end another
    /// pause.
    last_id: u64,
}

/// One pause.
#[derive(Clone, Debug, PartialEq)]
struct PauseRecord {
    id: u64,
    /// User, terminal and process of the caller.
    by: String,
    /// Session of that process, as [`session`] returns it.
    session: String,
    unix_ms: u64,
    until_unix_ms: Option<u64>,
    why: String,
}

/// Selection of pauses that `kilter resume` ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PauseSelection {
    /// Pauses of a session, as [`session`] returns it. An empty text selects none.
    Session(String),
    /// One pause, by its number.
    One(u64),
    All,
}

impl Pauses {
    /// Reads the pauses of a state directory, without those that are over.
    pub(crate) fn read(state_dir: &Path) -> io::Result<Pauses> {
        let path = state_dir.join(NAME);
        let (mut list, last_id) = match durable::read(&path, MAX_BYTES)? {
            None => Default::default(),
            // kilter never writes an empty file: one that was cut to nothing may have held pauses.
            Some(bytes) if bytes.is_empty() => return Err(io::Error::other("it is empty")),
            Some(bytes) => parsed(&String::from_utf8_lossy(&bytes))?,
        };
        let now = now();
        list.retain(|one| one.until_unix_ms.is_none_or(|until| until > now));
        Ok(Pauses { path, list, last_id })
    }

    /// Reads the pauses of a state directory for a command that must not make changes while it is paused.
    ///
    /// # Errors
    /// If the pauses cannot be read; reported.
    pub(crate) fn read_or_fail(state_dir: &Path) -> Result<Pauses, Exit> {
        Pauses::read(state_dir).map_err(|error| unreadable(state_dir, &error))
    }

    /// Adds a pause; returns its number.
    pub(crate) fn add(&mut self, by: &Json, longest: Option<Duration>, why: &str) -> io::Result<u64> {
        let id = self.last_id + 1;
        let now = now();
        let text = |key: &str| by[key].as_str().unwrap_or("unknown").chars().take(200).collect::<String>();
        self.list.push(PauseRecord {
            id,
            by: text("by"),
            session: text("session"),
            unix_ms: now,
            until_unix_ms: longest.map(|longest| now.saturating_add(millis(longest))),
            why: why.chars().take(1000).collect(),
        });
        let written = self.write();
        match written {
            Ok(()) => self.last_id = id,
            Err(_) => drop(self.list.pop()),
        }
        written.map(|()| id)
    }

    /// Ends pauses; returns their number.
    pub(crate) fn end(&mut self, which: &PauseSelection) -> io::Result<usize> {
        let before = self.list.clone();
        self.list.retain(|one| match which {
            PauseSelection::Session(session) => !is_same_session(&one.session, session),
            PauseSelection::One(id) => one.id != *id,
            PauseSelection::All => false,
        });
        let ended = before.len() - self.list.len();
        if ended > 0
            && let Err(error) = self.write()
        {
            self.list = before;
            return Err(error);
        }
        Ok(ended)
    }

    /// Combines all pauses to a pause that lasts as long as the longest of them.
    pub(crate) fn as_one(&self) -> Option<Pause> {
        let now = now();
        let lasting: Vec<&PauseRecord> = self.lasting(now).collect();
        let longest = lasting.iter().map(|one| one.until_unix_ms).try_fold(0, |most, until| Some(most.max(until?)));
        let whys: Vec<&str> = lasting.iter().map(|one| one.why.as_str()).filter(|why| !why.is_empty()).collect();
        (!lasting.is_empty()).then(|| Pause {
            longest: longest.map(|until| Duration::from_millis(until - now)),
            why: whys.join("; ").into(),
            is_loan: false,
        })
    }

    /// Returns the pauses as JSON (docs/reference/status.md).
    pub(crate) fn to_json(&self) -> Json {
        self.lasting(now()).map(PauseRecord::to_json).collect()
    }

    /// Returns the pauses that are not over.
    fn lasting(&self, now: u64) -> impl Iterator<Item = &PauseRecord> {
        self.list.iter().filter(move |one| one.until_unix_ms.is_none_or(|until| until > now))
    }

    /// Returns the pauses for people, one line for each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.to_json().as_array().into_iter().flatten().map(pause_line).collect()
    }

    /// Rewrites the pauses if their file was removed.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let is_removed =
            std::fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_removed && self.as_one().is_some() { self.write() } else { Ok(()) }
    }

    fn write(&self) -> io::Result<()> {
        let last_id = self.list.iter().map(|one| one.id).fold(self.last_id, u64::max);
        let text = format!("{:#}\n", json!({"last_id": last_id, "pauses": self.to_json()}));
        durable::replace(&self.path, text.as_bytes())
    }
}

/// Reports that the pauses of a state directory cannot be read.
fn unreadable(state_dir: &Path, error: &io::Error) -> Exit {
    let path = state_dir.join(NAME);
    output::fail_with(
        format_args!("cannot read the pauses of this state directory, {}: {error}", path.display()),
        ["if nothing has to stay paused, remove that file; pause again otherwise"],
    )
}

/// Returns the pauses of a file, and the number of the last pause. A file of the previous version is only a list.
fn parsed(text: &str) -> io::Result<(Vec<PauseRecord>, u64)> {
    let json: Json = serde_json::from_str(text)?;
    let listed = json.as_array().or_else(|| json["pauses"].as_array());
    let list: Option<Vec<PauseRecord>> = listed.and_then(|list| list.iter().map(PauseRecord::of).collect());
    let list = list.ok_or_else(|| io::Error::other("it is not a list of pauses"))?;
    let last_id = list.iter().map(|one| one.id).fold(json["last_id"].as_u64().unwrap_or(0), u64::max);
    Ok((list, last_id))
}

impl PauseRecord {
    fn of(json: &Json) -> Option<PauseRecord> {
        Some(PauseRecord {
            id: json["id"].as_u64()?,
            by: json["by"].as_str()?.to_owned(),
            // The previous version stored a number, which identifies no session.
            session: json["session"].as_str().unwrap_or_default().to_owned(),
            unix_ms: json["unix_ms"].as_u64()?,
            until_unix_ms: json["until_unix_ms"].as_u64(),
            why: json["why"].as_str()?.to_owned(),
        })
    }

    fn to_json(&self) -> Json {
        json!({"id": self.id, "by": self.by, "session": self.session, "unix_ms": self.unix_ms,
               "until_unix_ms": self.until_unix_ms, "why": self.why})
    }
}

/// Returns the caller of `kilter pause` or `kilter resume`: the user, the terminal, the parent process, and the
/// session.
pub(crate) fn caller() -> Json {
    json!({"by": described(), "session": session()})
}

/// Returns an identifier for the session of this process (setsid(2)): the boot, the PID namespace, the session's
/// number, and the start of its leader. The start is empty if the leader has ended.
///
/// The kernel reuses a number after a boot, in another namespace, and after the end of the session. In a namespace
/// without the leader, such as after `unshare --pid` or `docker exec`, the number is 0 for all sessions. The sessions
/// are then indistinguishable, so the identifier is empty.
fn session() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let Some(id) = stat_field("self", 6).filter(|id| id != "0") else { return String::new() };
    let start = stat_field(&id, 22).unwrap_or_default();
    format!("{} {} {id} {start}", boot.trim(), namespace.display())
}

/// Returns true if two identifiers name the same session. A start that is unknown equals each other: the kernel does
/// not reuse the number of a session that outlives its leader.
fn is_same_session(one: &str, other: &str) -> bool {
    let parts = |session: &str| session.splitn(4, ' ').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (parts(one), parts(other));
    let start = |parts: &[String]| parts.get(3).filter(|start| !start.is_empty()).cloned();
    let is_named = one.iter().any(|part| !part.is_empty());
    let is_same_start = start(&one).zip(start(&other)).is_none_or(|(one, other)| one == other);
    is_named && is_same_start && one.iter().take(3).eq(other.iter().take(3))
}

/// Returns a field of `/proc/PROCESS/stat`, by its number in proc(5), from 3 on.
fn stat_field(process: &str, number: usize) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain spaces and parentheses.
    let fields = stat.rsplit(|byte| *byte == b')').next()?;
    String::from_utf8_lossy(fields).split_whitespace().nth(number.checked_sub(3)?).map(str::to_owned)
}

fn described() -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = user_name(uid).unwrap_or_else(|| format!("uid {uid}"));
    let mut text = match std::env::var("SUDO_USER") {
        Ok(login) if login != name => format!("{login} as {name}"),
        _ => name,
    };
    let terminal = rustix::termios::ttyname(std::io::stdin(), Vec::new());
    if let Some(terminal) = terminal.ok().and_then(|terminal| terminal.into_string().ok()) {
        text += &format!(" on {}", terminal.trim_start_matches("/dev/"));
    }
    if let Some(parent) = rustix::process::getppid() {
        let parent = parent.as_raw_nonzero();
        let command = std::fs::read(format!("/proc/{parent}/comm")).unwrap_or_default();
        text += &format!(" (process {parent}: {})", String::from_utf8_lossy(&command).trim());
    }
    text
}

/// Refusal of changes with a paused state directory.
pub(crate) struct PausedRefusal {
    /// The pauses.
    pub(crate) why: String,
    /// Advice.
    pub(crate) hints: [&'static str; 2],
}

/// Returns the refusal of changes with a state directory, if its runs are paused.
///
/// # Errors
/// If the pauses cannot be read.
pub(crate) fn refusal(state_dir: &Path) -> io::Result<Option<PausedRefusal>> {
    let lines = Pauses::read(state_dir)?.lines();
    let why = format!("nothing is changed while this state directory is paused: {}", lines.join("; "));
    let hints = ["`kilter resume ID` ends one, `kilter resume --all` ends all", "or give --even-if-paused"];
    Ok((!lines.is_empty()).then_some(PausedRefusal { why, hints }))
}

/// Refuses a change while the runs of a state directory are paused.
///
/// # Errors
/// If they are paused, or if the pauses cannot be read; reported.
pub(crate) fn refuse(state_dir: &Path) -> Result<(), Exit> {
    let refusal = refusal(state_dir).map_err(|error| unreadable(state_dir, &error))?;
    refusal.map_or(Ok(()), |PausedRefusal { why, hints }| Err(output::fail_with(why, hints)))
}

fn now() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_two_sessions_are_kept_apart() {
        let place = tempfile::tempdir().unwrap();
        let read = || Pauses::read(place.path()).unwrap();
        let by = |session: &str| json!({"by": format!("user {session}"), "session": session});
        assert_eq!(read().as_one(), None);
        assert_eq!(read().add(&by("1"), None, "backup").unwrap(), 1);
        assert_eq!(read().add(&by("2"), Some(Duration::from_secs(600)), "by hand").unwrap(), 2);
        let one = read().as_one().unwrap();
        assert_eq!((one.longest, one.why.as_str()), (None, "backup; by hand"));
        assert_eq!(read().end(&PauseSelection::Session("3".into())).unwrap(), 0);
        assert_eq!(read().end(&PauseSelection::Session("1".into())).unwrap(), 1);
        let one = read().as_one().unwrap();
        assert!(one.longest.is_some_and(|left| left <= Duration::from_secs(600)) && one.why == "by hand");
        assert_eq!(read().add(&by("1"), Some(Duration::ZERO), "over").unwrap(), 3);
        assert_eq!(read().lines().len(), 1, "what is over is left out");
        assert_eq!(read().end(&PauseSelection::One(2)).unwrap(), 1);
        assert_eq!((read().as_one(), read().end(&PauseSelection::All).unwrap()), (None, 0));
        assert_eq!(read().add(&by("1"), None, "").unwrap(), 4, "a number is not used again");
    }

    #[test]
    fn session_is_named_unless_its_leader_is_outside_of_the_namespace() {
        assert_eq!(session(), session());
        let is_outside = stat_field("self", 6).is_none_or(|id| id == "0");
        let parts: Vec<String> = session().split(' ').map(str::to_owned).collect();
        assert_eq!(parts.len(), if is_outside { 1 } else { 4 }, "{parts:?}");
        assert_eq!(parts[..parts.len().min(3)].iter().all(|part| !part.is_empty()), !is_outside, "{parts:?}");
        assert_eq!(stat_field("0", 22), None, "no process has the number of a leader in another namespace");
    }

    #[test]
    fn session_without_a_name_ends_no_pause() {
        let place = tempfile::tempdir().unwrap();
        let mut pauses = Pauses::read(place.path()).unwrap();
        pauses.add(&json!({"by": "root", "session": ""}), None, "by hand").unwrap();
        assert_eq!(pauses.end(&PauseSelection::Session(String::new())).unwrap(), 0);
        assert_eq!(pauses.end(&PauseSelection::One(1)).unwrap(), 1);
    }

    #[test]
    fn session_is_the_same_after_its_leader_has_ended() {
        for (one, other, is_same) in [
            ("boot pid:[1] 7 100", "boot pid:[1] 7 100", true),
            ("boot pid:[1] 7 100", "boot pid:[1] 7 ", true),
            ("boot pid:[1] 7 100", "boot pid:[1] 7 101", false),
            ("boot pid:[1] 7 100", "boot pid:[1] 8 ", false),
            ("boot pid:[1] 7 100", "boot pid:[2] 7 ", false),
            ("boot pid:[1] 7 100", "later pid:[1] 7 ", false),
            ("", "", false),
        ] {
            assert_eq!(is_same_session(one, other), is_same, "{one:?} {other:?}");
        }
    }

    #[test]
    fn invalid_pause_file_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        for garbage in ["", "\n", "garbage", "{}", "3", "[{}]", "{\"last_id\": 3, \"pauses\": [1]}"] {
            std::fs::write(place.path().join(NAME), garbage).unwrap();
            assert!(Pauses::read(place.path()).is_err(), "{garbage}");
        }
        std::fs::write(place.path().join(NAME), "[]").unwrap();
        assert_eq!(Pauses::read(place.path()).unwrap().add(&Json::Null, None, "").unwrap(), 1);
    }
}
