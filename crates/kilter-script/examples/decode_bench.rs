//! Measures the decoding of 100,000 resources from the output of a script, in both conventions.
//!
//! `cargo run --profile bench -p kilter-script --example decode_bench`; the bounds are those of docs/performance.md.

use std::time::{Duration, Instant};

use kilter_process::{Captured, Invocation, Output, Status};
use kilter_script::{Convention, Json, Reply, Request, Simple};

const COUNT: usize = 100_000;

fn finished(stdout: String) -> Output {
    let stdout = Captured { bytes: stdout.into_bytes(), dropped: 0 };
    Output { stdout, ..Output::of(Status::Code(0)) }
}

/// The median of several runs.
fn median(convention: &dyn Convention, finished: &Output) -> Duration {
    let mut times: Vec<Duration> = (0..9)
        .map(|_| {
            let begun = Instant::now();
            let reply = convention.decode(&Request::List, finished).expect("the output is made well above");
            let time = begun.elapsed();
            let Reply::Resources(records) = reply else { unreachable!("a list is answered with resources") };
            assert_eq!(records.len(), COUNT);
            time
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let mut simple = String::from("# simple\n");
    let mut json = String::from("{\"resources\":[");
    for number in 0..COUNT {
        let name = format!("package-number-{number}");
        simple += &format!("name: {name}\nensure: 1.2.{number}-1+deb12u1\nplatform: amd64\nenabled: true\n");
        let comma = if number == 0 { "" } else { "," };
        json += &format!(
            "{comma}{{\"name\":\"{name}\",\"ensure\":\"1.2.{number}-1+deb12u1\",\"platform\":\"amd64\",\"enabled\":true}}"
        );
    }
    json += "]}";
    let base = || Invocation::new("/x");
    for (name, time, bound) in [
        ("simple", median(&Simple::new(base()), &finished(simple)), 100),
        ("json", median(&Json::new(base()), &finished(json)), 150),
    ] {
        println!("{name}: {COUNT} resources in {:.1} ms (bound: {bound} ms)", time.as_secs_f64() * 1000.0);
        assert!(time < Duration::from_millis(bound), "{name} takes longer than it may");
    }
}
