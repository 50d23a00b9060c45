//! kilter's remarks about the calls of scripts.

use kilter_process::Output;
use kilter_provider::Level;

use super::ScriptProvider;
use crate::confined::{ConfinementPolicy, Confining};
use crate::convention::Request;

impl ScriptProvider {
    /// Logs kilter's own remarks about a call.
    pub(super) fn remark(&self, request: &Request<'_>, finished: &Output, dropped: u64, log: &dyn Fn(Level, &str)) {
        if dropped > 0 {
            log(Level::Warning, &format!("the provider wrote {dropped} bytes more on standard error than kilter logs"));
        }
        if finished.leaked {
            let message = "the provider has ended and left a process that keeps its output open";
            log(Level::Warning, message);
        }
        let lifted = match request {
            Request::Describe | Request::Update(..) | Request::Refresh(_) => ConfinementPolicy::Never,
            Request::List | Request::Find(_) | Request::FindAs(..) | Request::Watch => ConfinementPolicy::ByMetadata,
        };
        let who = format!("the provider `{}`", self.name);
        let is_preview = matches!(request, Request::Update(..));
        let call = Confining { who: &who, action: self.action(request), is_preview, lifted };
        self.confined.notes(call, finished).for_each(|message| log(Level::Warning, &message));
    }
}
