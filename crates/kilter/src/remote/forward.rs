//! Commands that a host executes as they are: the words of the command line, without the options for hosts.

use kilter_process::Stream;
use kilter_remote::{Finished, LinkError, RemoteCall};
use serde_json::{Map, Value as Json, json};

use super::hosts::{HostAnswer, Hosts, keep};
use crate::cli::{Cli, Command, RemoteArgs};
use crate::exit::Exit;
use crate::style::{FAILED, styled};
use crate::target_results::{self, TargetResult};
use crate::visible::visible;
use crate::{foreign, output, signals};

/// Number of the signal that the kernel sends if memory is used up.
const SIGKILL: i32 = 9;

/// Runs the command.
pub(super) fn run(cli: &Cli, words: Vec<String>) -> Exit {
    let hosts = match super::hosts(cli) {
        Ok((hosts, _)) => hosts,
        Err(exit) => return exit,
    };
    let stdin = match stdin(&cli.command) {
        Ok(stdin) => stdin,
        Err(exit) => return exit,
    };
    let mut args_for_host = vec![format!("--color={}", if output::is_styled() { "always" } else { "never" })];
    args_for_host.extend(RemoteArgs::removed_from(words));
    let call = RemoteCall { args: args_for_host, stdin, ..RemoteCall::default() };
    let exit = match hosts.len() {
        1 => one(&hosts, &call),
        _ if is_endless(&cli.command) => several_streaming(&hosts, &call),
        _ => several(&hosts, &call, target_results::is_json(&cli.command)),
    };
    hosts.close();
    signals::exit().unwrap_or(exit)
}

/// Executes the command on one host, as if it was this machine.
fn one(hosts: &Hosts, call: &RemoteCall) -> Exit {
    let answer = streaming(hosts, 0, call);
    report(hosts.name(0), &answer);
    Exit::of_code(answer.code())
}

/// Executes the command on several hosts, and shows equal outputs once.
fn several(hosts: &Hosts, call: &RemoteCall, is_json: bool) -> Exit {
    let answers = hosts.each(&hosts.all(), |host| {
        let answer = hosts.call(host, call);
        hosts.rest(host);
        answer
    });
    let codes: Vec<u8> = answers.iter().map(HostAnswer::code).collect();
    let result = |(host, answer): (usize, HostAnswer)| match answer {
        HostAnswer::Finished { finished, stdout, stderr } => {
            Ok(TargetResult { name: hosts.name(host).to_owned(), code: finished.code, stdout, stderr })
        }
        answer => Err((hosts.name(host), answer)),
    };
    let results: Vec<Result<TargetResult, (&str, HostAnswer)>> = answers.into_iter().enumerate().map(result).collect();
    if is_json {
        let member = |result: &Result<TargetResult, (&str, HostAnswer)>| match result {
            Ok(result) => target_results::json(result),
            Err((host, answer)) => ((*host).to_owned(), no_result_json(answer)),
        };
        let document: Map<String, Json> = results.iter().map(member).collect();
        output::data(&format!("{:#}\n", Json::Object(document)));
        return target_results::exit(&codes);
    }
    let (mut finished, mut others) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(result) => finished.push(result),
            Err(other) => others.push(other),
        }
    }
    target_results::show_groups(&finished);
    others.iter().for_each(|(host, answer)| report(host, answer));
    target_results::exit(&codes)
}

/// Executes an endless command on several hosts. Each line starts with the name of its host.
fn several_streaming(hosts: &Hosts, call: &RemoteCall) -> Exit {
    let answers = hosts.each(&hosts.all(), |host| streaming(hosts, host, call));
    for (host, answer) in answers.iter().enumerate() {
        report(hosts.name(host), answer);
    }
    target_results::exit(&answers.iter().map(HostAnswer::code).collect::<Vec<u8>>())
}

/// Executes a command on a host, and shows its output. If there are several hosts, each line starts with the name of its
/// host.
fn streaming(hosts: &Hosts, host: usize, call: &RemoteCall) -> HostAnswer {
    match hosts.len() {
        1 => answer(hosts.call_streaming(host, call, &mut foreign::write)),
        _ => by_line(hosts, host, call, &signals::is_raised, &|_| false),
    }
}

/// Executes a command on a host until `is_cancelled` returns true, and shows the lines of its output that are not hidden.
/// If there are several hosts, each line starts with the name of its host.
pub(super) fn by_line(
    hosts: &Hosts,
    host: usize,
    call: &RemoteCall,
    is_cancelled: &dyn Fn() -> bool,
    is_hidden: &dyn Fn(&str) -> bool,
) -> HostAnswer {
    let show = |stream: Stream, line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        if !is_hidden(anstream::adapter::strip_str(&text).to_string().trim_end()) {
            show_line(hosts, host, stream, line);
        }
    };
    let mut pending = [Vec::new(), Vec::new()];
    let finished = hosts.call_until(host, call, is_cancelled, &mut |stream, bytes| {
        let pending = &mut pending[usize::from(stream != Stream::Stdout)];
        keep(pending, bytes);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            show(stream, &line);
        }
    });
    for (stream, rest) in [Stream::Stdout, Stream::Stderr].into_iter().zip(pending) {
        if !rest.is_empty() {
            show(stream, &[rest.as_slice(), b"\n"].concat());
        }
    }
    answer(finished)
}

fn answer(finished: Result<Finished, HostAnswer>) -> HostAnswer {
    match finished {
        Ok(finished) => HostAnswer::Finished { finished, stdout: Vec::new(), stderr: Vec::new() },
        Err(answer) => answer,
    }
}

/// Shows the output of a command. If there are several hosts, each line starts with the name of the host.
pub(super) fn show_lines(hosts: &Hosts, host: usize, stream: Stream, output: &[u8]) {
    output.split_inclusive(|byte| *byte == b'\n').for_each(|line| show_line(hosts, host, stream, line));
}

fn show_line(hosts: &Hosts, host: usize, stream: Stream, line: &[u8]) {
    match hosts.len() {
        1 => foreign::write(stream, line),
        _ => foreign::write(stream, &[format!("{}: ", hosts.name(host)).as_bytes(), line].concat()),
    }
}

/// Returns an answer without a result as a member of the document.
fn no_result_json(answer: &HostAnswer) -> Json {
    let word = if matches!(answer, HostAnswer::Unreachable(_)) { "none" } else { "lost" };
    json!({ "answer": word, "error": answer.reason() })
}

/// Reports an answer without a result.
pub(super) fn report(host: &str, answer: &HostAnswer) {
    match answer {
        HostAnswer::Finished { .. } => {}
        HostAnswer::Unreachable(error) => {
            output::line(format_args!("{} {host}: {}", styled(FAILED, "no answer:"), visible(&error.to_string())));
            hint(&error.to_string());
        }
        HostAnswer::Lost { error, stderr } => {
            foreign::write(Stream::Stderr, stderr);
            output::line(format_args!("{} {host}: {}", styled(FAILED, "failed:"), visible(&error.to_string())));
            output::hint(match error {
                LinkError::Lost(_) => {
                    "the command ended on the host after its step in flight; `kilter history` there shows it"
                }
                LinkError::Killed { signal: SIGKILL, .. } => {
                    "`journalctl -k` on the host shows if its memory was used up; `kilter history` there shows the \
                     changes before"
                }
                LinkError::Killed { .. } => "`kilter history` on the host shows the changes before",
            });
        }
    }
}

/// Adds the remedy for common reasons.
fn hint(why: &str) {
    if why.contains("Host key verification failed") {
        output::hint("compare the host key: run `ssh HOST` once");
    } else if why.contains("Permission denied (") {
        output::hint("kilter asks for no password of ssh: load a key with ssh-add, or name one in ~/.ssh/config");
    } else if why.contains("asks for a password") {
        output::hint("give -K to enter it");
    } else if why.contains("you must have a tty") {
        output::hint("allow sudo without a terminal: `Defaults:USER !requiretty` in sudoers");
    } else if why.contains("doas: Authentication required") {
        output::hint("doas takes a password only from a terminal: `permit nopass USER as root` in /etc/doas.conf");
    }
}

/// Returns true if the command shows what happens until it is interrupted.
fn is_endless(command: &Command) -> bool {
    match command {
        Command::Status(args) => args.follow,
        Command::History(args) => args.follow,
        _ => false,
    }
}

/// Returns the standard input, if the command reads it.
fn stdin(command: &Command) -> Result<Vec<u8>, Exit> {
    let mut stdin = Vec::new();
    let is_read = match command {
        Command::Set(args) => args.words.iter().any(|word| word.ends_with("=-")),
        Command::Check(args) => args.input.manifests.iter().any(|path| path.as_os_str() == "-"),
        _ => false,
    };
    if is_read {
        let read = crate::signals::killable(|| std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut stdin));
        read.map_err(|error| output::fail(format_args!("cannot read the standard input: {error}")))?;
    }
    Ok(stdin)
}
