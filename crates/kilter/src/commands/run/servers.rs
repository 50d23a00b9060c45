//! Servers of a run: status and metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use kilter_runtime::{Mode, StatusHandle};

use crate::commands::exec_options::ExecOptions;
use crate::exit::Exit;
use crate::pauses::Pauses;
use crate::server::{Listener, Server};
use crate::session::Session;
use crate::status_server::StatusServer;
use crate::{metrics, output};

/// Opens the status server. A run without changes leaves no trace, and has none.
pub(super) fn status_server(
    pass: ExecOptions,
    session: &Session,
    server: &Arc<Server>,
    status_handle: &Arc<StatusHandle>,
) -> Result<Option<StatusServer>, Exit> {
    if pass.mode == Mode::Noop {
        return Ok(None);
    }
    let state_dir = session.state_dir()?;
    let pauses = Pauses::read_or_fail(&state_dir)?;
    let is_paused = pauses.as_one().is_some();
    match StatusServer::open(server, &state_dir, status_handle, pauses) {
        Ok(status_server) => Ok(Some(status_server)),
        // Without the server, `kilter resume` could not reach the run.
        Err(error) if is_paused => {
            let path = crate::paths::status_socket(&state_dir);
            Err(output::fail_with(
                format_args!("this state directory is paused, and {} cannot be opened: {error}", path.display()),
                ["remove that path, or end the pauses with `kilter resume --all`"],
            ))
        }
        Err(error) => {
            output::warning(format_args!("`kilter status` cannot query this run: {error}"));
            Ok(None)
        }
    }
}

/// Opens the listener for metrics. A failure ends the run, because monitoring depends on the metrics.
pub(super) fn listen(server: &Server, at: SocketAddr, status_handle: &Arc<StatusHandle>) -> Result<Listener, Exit> {
    let (listener, bound) = metrics::open(server, at, status_handle).map_err(|error| {
        output::fail_with(
            format_args!("cannot serve metrics at {at}: {error}"),
            ["give another address with \
                                                            --metrics"],
        )
    })?;
    if at.port() == 0 {
        output::line(format_args!("metrics are served at http://{bound}/metrics"));
    }
    Ok(listener)
}
