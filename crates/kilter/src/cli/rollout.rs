//! Options for the roll-out of a plan to several hosts.

use clap::{Args, Subcommand};

use super::ReportFormat;

/// Options for the roll-out of a plan to several hosts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = super::HOSTS)]
pub(crate) struct RolloutArgs {
    /// With --on: apply without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// With --on: change this many hosts first, then that many, and so on, such as 1,10%,100%. The next stage starts
    /// if the one before has not too many failures
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = share)]
    pub(crate) stage: Vec<Share>,
    /// With --on: go on with at most this many failed hosts, as a count or a share such as 5% of the hosts; repeatable
    /// [default: 0 with --stage, otherwise any number]
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = share)]
    pub(crate) max_failures: Vec<Share>,
}

impl RolloutArgs {
    /// Replaces the options by those that are given.
    pub(crate) fn replace_by(&mut self, given: &RolloutArgs) {
        self.yes |= given.yes;
        for (option, given) in [(&mut self.stage, &given.stage), (&mut self.max_failures, &given.max_failures)] {
            if !given.is_empty() {
                option.clone_from(given);
            }
        }
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
