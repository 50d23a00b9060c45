//! `appliance [COUNT [LATENCY_MS]]`: starts appliances, prints the port of each, and ends with its standard input.

#![expect(clippy::print_stdout, reason = "the program prints the ports")]

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use kilter_testkit::appliance::Appliance;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let number = |at: usize, otherwise: u64| match std::env::args().nth(at) {
        Some(word) => word.parse().map_err(|_| io::Error::other(format!("`{word}` is not a number"))),
        None => Ok(otherwise),
    };
    let (count, latency) = (number(1, 1)?, Duration::from_millis(number(2, 0)?));
    let appliances: Vec<Appliance> = (0..count).map(|_| Appliance::start()).collect::<io::Result<_>>()?;
    for appliance in &appliances {
        appliance.set_latency(latency);
        println!("{}", appliance.port());
    }
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
