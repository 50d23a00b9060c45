//! Origin of a run: user, terminal, host and command.

use std::time::SystemTime;

use serde_json::{Value as Json, json};

use super::milliseconds;
use crate::session::Session;
use crate::users::user_name;

/// Login uid of a process without a login.
const NO_LOGIN: u32 = u32::MAX;

/// Command, host and start of a run.
pub(super) struct RunOrigin {
    pub(super) command: &'static str,
    pub(super) host: String,
    pub(super) started: SystemTime,
}

impl RunOrigin {
    pub(super) fn of(session: &Session) -> RunOrigin {
        RunOrigin { command: session.command(), host: session.host().to_owned(), started: SystemTime::now() }
    }
}

/// Returns the begin of a run.
pub(super) fn header(origin: &RunOrigin) -> Json {
    let uid = rustix::process::getuid().as_raw();
    let mut header = json!({
        "command": origin.command,
        "uid": uid,
        "host": origin.host,
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "started": milliseconds(origin.started),
    });
    if let Some(name) = user_name(uid) {
        header["user"] = name.into();
    }
    // The kernel keeps the user who logged in, over sudo and su.
    let login = std::fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse().ok());
    let login = login.filter(|login| *login != NO_LOGIN && *login != uid);
    if let Some(login) = login {
        header["login"] = user_name(login).map_or_else(|| Json::from(login), Json::from);
    }
    if let Some(terminal) = terminal() {
        header["terminal"] = terminal.into();
    }
    header
}

/// Returns the terminal of the command.
fn terminal() -> Option<String> {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stderr(), rustix::stdio::stdout()];
    let terminal = streams.into_iter().find(|stream| rustix::termios::isatty(stream))?;
    let name = rustix::termios::ttyname(terminal, Vec::new()).ok()?;
    Some(name.to_string_lossy().into_owned())
}
