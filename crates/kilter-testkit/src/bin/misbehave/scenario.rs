//! What is done wrong.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::answer::{Convention, Request, good, print, resources};

/// Plays a scenario; returns the exit code.
pub(crate) fn play(scenario: &str, request: &Request) -> u8 {
    let simple = request.convention == Convention::Simple;
    let either = |text: &'static str, json: &'static str| if simple { text } else { json };
    match scenario {
        "hang" => hang(),
        "trickle" => loop {
            print("\n");
            std::thread::sleep(Duration::from_millis(20));
        },
        "flood" => loop {
            print([b'\n'; 65536]);
        },
        "flood-stderr" => {
            eprintln!("{}", "x".repeat(4 << 20));
            good(request);
        }
        "half-a-line" => print(either("# simple\nname: a\nv: 1\nna", "{\"resources\":[{\"na")),
        "bad-utf8" => {
            print(if simple { b"# simple\nname: \xff\n".as_slice() } else { b"{\"resources\":[{\"name\":\"\xff\"}]}" })
        }
        "nul" => print(either("# simple\nname: a\nv: \0\n", "{\"resources\":[{\"name\":\"a\0\"}]}")),
        "wrong-name" => {
            print(either("# simple\nname: other\nv: 1\n", "{\"resources\":[{\"name\":\"other\",\"v\":\"1\"}]}"))
        }
        "wrong-name-of-a-change" => {
            print(either("# simple\nname: other\nv: 2\n", "{\"changes\":[{\"v\":{\"is\":\"2\",\"was\":\"1\"}}]}"));
        }
        "wrong-type" => print(resources(request, "n: many\n", ",\"n\":\"many\"")),
        "wrong-shape" => print(either("name: a\n", "[]")),
        "duplicates" => print(either(
            "# simple\nname: a\nv: 1\nname: a\nv: 2\n",
            "{\"resources\":[{\"name\":\"a\",\"v\":\"1\"},{\"name\":\"a\",\"v\":\"2\"}]}",
        )),
        "unknown-keys" => print(resources(request, "v: 1\nnosuch: 1\n", ",\"v\":\"1\",\"nosuch\":{}")),
        "dies-after-writing" => {
            good(request);
            return 3;
        }
        "is-killed-after-writing" => {
            good(request);
            kill_itself();
        }
        "nothing" => {}
        "ignores-stdin" => good(request),
        "forks-and-leaks" => {
            leak();
            good(request);
        }
        "huge-integer" => {
            print(resources(request, "n: 99999999999999999999999999\n", ",\"n\":99999999999999999999999999"));
        }
        "deep" => {
            let deep = "[".repeat(100_000);
            print(resources(request, &format!("list: {deep}\n"), &format!(",\"list\":{deep}")));
        }
        "long-line" => print("x".repeat(10 << 20)),
        "error-without-end" => print(either("# simple\nral_error: half\nmore", "{\"error\":\"half\"}")),
        "error-and-status" => {
            print(either("ral_error: said\nral_eom\n", "{\"error\":{\"message\":\"said\"}}"));
            return 1;
        }
        "moves-the-cursor" => {
            eprintln!("\u{1b}[2J\u{7}gone");
            return 1;
        }
        "lies" => good(request),
        other => {
            eprintln!("error: there is no scenario {other}");
            return 64;
        }
    }
    0
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn kill_itself() -> ! {
    let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    hang()
}

/// Leaves a process behind that keeps the output open.
fn leak() {
    // It is not waited for: that is the point.
    let _ = Command::new("sleep").arg("20").stdin(Stdio::null()).spawn();
}
