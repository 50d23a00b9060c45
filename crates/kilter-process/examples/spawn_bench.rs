//! Holds `kilter_process::run` against the bare spawn and wait of the standard library.
//!
//! `cargo run --profile bench -p kilter-process --example spawn_bench`: CPU of this process and its
//! children, for 500 starts of `/usr/bin/test` a round, rounds taken in turns. Run it as root.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kilter_process::{Capture, Confinement, Identity, Invocation, run};

const STARTS: usize = 500;
const ROUNDS: usize = 8;

type Way = (&'static str, fn());

fn main() {
    let ways: [Way; 7] = [
        ("std Command, null stdio", bare),
        ("run, outputs dropped", || kilter(&guard())),
        ("run, with deadline", || kilter(&guard().deadline(Duration::from_secs(300)))),
        ("run, captured, with deadline", || kilter(&guard().captured(4096).deadline(Duration::from_secs(300)))),
        ("run, as another user", || kilter(&as_nobody(guard()))),
        ("run, with descriptor 3", || kilter(&guard().channel(Capture::First(4096)))),
        ("run, confined", || kilter(&guard().confined(Confinement::ReadOnly))),
    ];
    let mut spent = [(0, Duration::ZERO); 7];
    for _ in 0..ROUNDS {
        for (way, spent) in ways.iter().zip(&mut spent) {
            let (cpu, wall) = (ticks(), Instant::now());
            (0..STARTS).for_each(|_| way.1());
            spent.0 += ticks() - cpu;
            spent.1 += wall.elapsed();
        }
    }
    let starts = (STARTS * ROUNDS) as f64;
    for ((name, _), (ticks, wall)) in ways.iter().zip(spent) {
        let (cpu, wall) = (ticks as f64 * 1e4 / starts, wall.as_secs_f64() * 1e6 / starts);
        let ratio = ticks as f64 / spent[0].0 as f64;
        println!("{name:30} {cpu:7.1} us CPU {wall:7.1} us wall   CPU x {ratio:.3}");
    }
}

fn guard() -> Invocation {
    Invocation::new("/usr/bin/test").args(["-e", "/etc/passwd"])
}

fn as_nobody(mut invocation: Invocation) -> Invocation {
    invocation.identity = Some(Identity { uid: 65534, gid: 65534, groups: Vec::new() });
    invocation
}

fn kilter(invocation: &Invocation) {
    assert!(run(invocation, None).expect("test starts").is_success());
}

fn bare() {
    let mut command = Command::new("/usr/bin/test");
    command.args(["-e", "/etc/passwd"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("test starts").success());
}

/// CPU of this process and the children it has waited for, in ticks of 10 ms (proc_pid_stat(5)).
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    let rest = stat.rsplit(')').next().expect("there is a name in parentheses");
    rest.split_ascii_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().expect("ticks are numbers")).sum()
}
