//! Commands that a host executes as they are: the words of the command line, without the options for hosts.

use kilter_process::Stream;
use kilter_remote::RemoteCall;
use serde_json::{Map, Value as Json, json};

use super::foreign;
use super::hosts::{HostAnswer, Hosts, keep};
use crate::cli::{Cli, Command, RemoteArgs};
use crate::exit::Exit;
use crate::output;
use crate::style::{FAILED, NAME, styled};
use crate::visible::visible;

/// Runs the command.
pub(super) fn run(cli: &Cli, words: Vec<String>) -> Exit {
    let hosts = match super::hosts(&cli.global.remote) {
        Ok((hosts, _)) => hosts,
        Err(exit) => return exit,
    };
    let stdin = match stdin(&cli.command) {
        Ok(stdin) => stdin,
        Err(exit) => return exit,
    };
    let mut args_for_host = vec![format!("--color={}", if output::is_styled() { "always" } else { "never" })];
    args_for_host.extend(RemoteArgs::removed_from(words).into_iter().filter(|word| !word.starts_with("--color")));
    let call = RemoteCall { args: args_for_host, stdin, ..RemoteCall::default() };
    let exit = match hosts.len() {
        1 => one(&hosts, &call),
        _ if is_endless(&cli.command) => several_streaming(&hosts, &call),
        _ => several(&hosts, &call, is_json(&call.args)),
    };
    hosts.close();
    crate::signals::exit().unwrap_or(exit)
}

/// Executes the command on one host, as if it was this machine.
fn one(hosts: &Hosts, call: &RemoteCall) -> Exit {
    let finished = hosts.call_streaming(0, call, &mut |stream, bytes| {
        foreign::write(stream, bytes);
    });
    match finished {
        Ok(finished) => Exit::of_code(finished.code),
        Err(answer) => {
            report(hosts.name(0), &answer);
            Exit::Failed
        }
    }
}

/// Executes the command on several hosts, and shows equal outputs once.
fn several(hosts: &Hosts, call: &RemoteCall, is_json: bool) -> Exit {
    let all: Vec<usize> = (0..hosts.len()).collect();
    let answers = hosts.each(&all, |host| hosts.call(host, call));
    if is_json {
        return as_json(hosts, &answers);
    }
    let mut groups: Vec<(Vec<&str>, &[u8], &[u8])> = Vec::new();
    for (host, answer) in answers.iter().enumerate() {
        let HostAnswer::Finished { stdout, stderr, .. } = answer else { continue };
        match groups.iter_mut().find(|(_, out, err)| out == stdout && err == stderr) {
            Some((names, ..)) => names.push(hosts.name(host)),
            None => groups.push((vec![hosts.name(host)], stdout, stderr)),
        }
    }
    for (names, stdout, stderr) in groups {
        let _ = output::data(&format!("{}\n", styled(NAME, format!("{}:", names.join(", ")))));
        foreign::write(Stream::Stderr, &indented(stderr));
        foreign::write(Stream::Stdout, &indented(stdout));
    }
    for (host, answer) in answers.iter().enumerate() {
        report(hosts.name(host), answer);
    }
    of_all(&answers)
}

/// Executes an endless command on several hosts. Each line starts with the name of its host.
fn several_streaming(hosts: &Hosts, call: &RemoteCall) -> Exit {
    let all: Vec<usize> = (0..hosts.len()).collect();
    let answers = hosts.each(&all, |host| {
        let mut lines = [Vec::new(), Vec::new()];
        let finished = hosts.call_streaming(host, call, &mut |stream, bytes| {
            let pending = &mut lines[usize::from(stream != Stream::Stdout)];
            keep(pending, bytes);
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                let line = [format!("{}: ", hosts.name(host)).as_bytes(), &line].concat();
                foreign::write(stream, &line);
            }
        });
        match finished {
            Ok(finished) => HostAnswer::Finished { finished, stdout: Vec::new(), stderr: Vec::new() },
            Err(answer) => answer,
        }
    });
    for (host, answer) in answers.iter().enumerate() {
        report(hosts.name(host), answer);
    }
    of_all(&answers)
}

/// Shows the answers as an object with a member for each host.
fn as_json(hosts: &Hosts, answers: &[HostAnswer]) -> Exit {
    let document: Map<String, Json> =
        answers.iter().enumerate().map(|(host, answer)| (hosts.name(host).to_owned(), answer_json(answer))).collect();
    match output::data(&format!("{:#}\n", Json::Object(document))) {
        Exit::Done => of_all(answers),
        exit => exit,
    }
}

fn answer_json(answer: &HostAnswer) -> Json {
    match answer {
        HostAnswer::Finished { finished, stdout, stderr } => {
            let text = String::from_utf8_lossy(stdout);
            let output = serde_json::from_str(&text).unwrap_or_else(|_| Json::from(text.as_ref()));
            let mut json = json!({ "answer": "finished", "exit": finished.code, "output": output });
            if !stderr.is_empty() {
                json["messages"] = String::from_utf8_lossy(stderr).as_ref().into();
            }
            json
        }
        HostAnswer::Unreachable(error) => json!({ "answer": "none", "error": error.to_string() }),
        HostAnswer::Lost { error, .. } => json!({ "answer": "lost", "error": error.to_string() }),
    }
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
            output::hint("the command ended on the host after its step in flight; `kilter history` there shows it");
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
    }
}

/// Returns the exit of all answers: the failures first.
pub(super) fn of_all(answers: &[HostAnswer]) -> Exit {
    let codes: Vec<u8> = answers.iter().map(HostAnswer::code).collect();
    let worst = [130, 143, 4, 6, 5, 3, 1, 2].into_iter().find(|code| codes.contains(code));
    Exit::of_code(worst.unwrap_or_else(|| codes.iter().copied().max().unwrap_or(0)))
}

fn indented(text: &[u8]) -> Vec<u8> {
    let mut indented = Vec::with_capacity(text.len() + 64);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line != b"\n" {
            indented.extend_from_slice(b"  ");
        }
        indented.extend_from_slice(line);
    }
    if indented.last().is_some_and(|last| *last != b'\n') {
        indented.push(b'\n');
    }
    indented
}

/// Returns true if the output is for programs.
fn is_json(words: &[String]) -> bool {
    words.iter().any(|word| word == "--format=json") || words.windows(2).any(|pair| pair == ["--format", "json"])
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
    if let Command::Set(args) = command
        && args.words.iter().any(|word| word.ends_with("=-"))
    {
        let read = crate::signals::killable(|| std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut stdin));
        read.map_err(|error| output::fail(format_args!("cannot read the standard input: {error}")))?;
    }
    Ok(stdin)
}
