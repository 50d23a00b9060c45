//! Options for the roll-out of a plan to several hosts.

use std::time::Duration;

use clap::{Arg, Args, Subcommand};

use super::ReportFormat;

/// Place of the address of a host in a URL.
pub(crate) const HOST: &str = "{host}";

/// Options for the roll-out of a plan to several hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = super::HOSTS)]
pub(crate) struct RolloutArgs {
    /// With --on: apply without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// With --on: change this many hosts first, then that many, and so on, such as 1,10%,100%. The next stage starts
    /// only if the failures of the stage before stay within the limits
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = share)]
    pub(crate) stage: Vec<Share>,
    /// With --on: go on with at most this many failed hosts, as a count or a share such as 5% of the hosts; repeatable
    /// [default: 0 with --stage, otherwise any number]
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = share)]
    pub(crate) max_failures: Vec<Share>,
    /// With --on: the same limit for the hosts of each stage; repeatable [default: any number]
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = share)]
    pub(crate) max_failures_per_stage: Vec<Share>,
    /// With --on: maximum time for the apply of a host, such as 10m. Then kilter closes the connection, and the host
    /// ends the apply after its step in flight [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = super::runs::duration)]
    pub(crate) host_timeout: Option<Duration>,
    /// With --on: pause for this time between two stages, such as 5m
    #[arg(long, value_name = "TIME", value_parser = super::runs::duration)]
    pub(crate) pause: Option<Duration>,
    /// With --on: ask at the terminal before each stage after the first
    #[arg(long)]
    pub(crate) ask_each_stage: bool,
    /// With --on: change hosts outside of their maintenance windows too
    #[arg(long)]
    pub(crate) outside_window: bool,
    /// With --on: after each stage, its hosts must stay healthy for this time. By default nothing may differ from their
    /// plans. With --healthy-url or --healthy-command, that check must succeed for the whole time. A host that is not
    /// healthy counts as failed
    #[arg(long, value_name = "TIME", value_parser = super::runs::duration)]
    pub(crate) healthy_for: Option<Duration>,
    /// With --healthy-for: GET this URL from this machine, such as http://{host}:8080/health; it must answer with 2xx
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) healthy_url: Option<String>,
    /// With --healthy-for: run this command of /bin/sh on this machine, with the name of the host in KILTER_HOST and
    /// its address in KILTER_ADDRESS
    #[arg(long, value_name = "COMMAND")]
    pub(crate) healthy_command: Option<String>,
}

impl RolloutArgs {
    /// Replaces the options by those that are given.
    pub(crate) fn replace_by(&mut self, given: &RolloutArgs) {
        let given = given.clone();
        self.yes |= given.yes;
        self.ask_each_stage |= given.ask_each_stage;
        self.outside_window |= given.outside_window;
        let shares = [
            (&mut self.stage, given.stage),
            (&mut self.max_failures, given.max_failures),
            (&mut self.max_failures_per_stage, given.max_failures_per_stage),
        ];
        for (option, given) in shares.into_iter().filter(|(_, given)| !given.is_empty()) {
            *option = given;
        }
        self.host_timeout = given.host_timeout.or(self.host_timeout);
        self.pause = given.pause.or(self.pause);
        self.healthy_for = given.healthy_for.or(self.healthy_for);
        self.healthy_url = given.healthy_url.or(self.healthy_url.take());
        self.healthy_command = given.healthy_command.or(self.healthy_command.take());
    }
}

/// Commands of `kilter rollout`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoredRolloutArgs {
    #[command(subcommand)]
    pub(crate) command: RolloutCommand,
}

/// Commands for stored roll-outs.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// List the stored roll-outs, the newest first
    List {
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ReportFormat,
    },
    /// Show the state of each host of a roll-out
    Show {
        /// Number of the roll-out, or `last`
        #[arg(value_name = "ID")]
        id: String,
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ReportFormat,
    },
    /// Continue a roll-out with the hosts that are untouched or have no result
    #[command(mut_args(without_condition))]
    Resume(ResumeRolloutArgs),
}

/// Arguments of `kilter rollout resume`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeRolloutArgs {
    /// Number of the roll-out, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) rollout: RolloutArgs,
}

/// Removes the condition of an option from its help. `rollout resume` has no `--on`.
fn without_condition(option: Arg) -> Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let mut letters = help.strip_prefix("With --on: ").unwrap_or_default().chars();
    match letters.next() {
        Some(first) => option.help(format!("{}{}", first.to_uppercase(), letters.as_str())),
        None => option,
    }
}

/// Number of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// A count.
    Count(usize),
    /// Percent of all hosts.
    Percent(usize),
}

impl Share {
    /// Returns the number for this many hosts, rounded up.
    pub(crate) fn at_least(self, hosts: usize) -> usize {
        match self {
            Share::Count(count) => count.min(hosts),
            Share::Percent(percent) => (hosts * percent).div_ceil(100),
        }
    }

    /// Returns the number for this many hosts, rounded down.
    pub(crate) fn at_most(self, hosts: usize) -> usize {
        match self {
            Share::Count(count) => count,
            Share::Percent(percent) => hosts * percent / 100,
        }
    }
}

fn share(text: &str) -> Result<Share, String> {
    let wrong = || "a number of hosts, or a share such as 10%, is expected".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(Share::Percent),
        None => text.parse().ok().map(Share::Count),
    }
    .ok_or_else(wrong)
}

/// Parses the address of a health check.
fn url(text: &str) -> Result<String, String> {
    kilter_fetch::check_url(&text.replace(HOST, "host"))?;
    match text.contains(HOST) {
        true => Ok(text.to_owned()),
        false => Err(format!("it contains {HOST}, in place of the address of each host")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_to_the_safe_side() {
        assert_eq!(share("10%").map(|share| share.at_least(8)), Ok(1));
        assert_eq!(share("10%").map(|share| share.at_most(8)), Ok(0));
        assert_eq!(share("3").map(|share| share.at_least(2)), Ok(2));
        assert!(share("101%").is_err());
        assert!(share("-1").is_err());
        assert!(share("").is_err());
    }
}
