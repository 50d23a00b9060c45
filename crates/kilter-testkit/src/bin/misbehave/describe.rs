//! Misbehaviour in the description, which `simple` and `json` have.

use super::answer::print;
use super::flood;
use super::processes;

/// Plays a scenario and returns the exit code.
pub(crate) fn play(scenario: &str) -> u8 {
    let good =
        "provider:\n  type: tt\n  invoke: simple\n  suitable: true\n  attributes:\n    name:\n    v: {type: string}\n";
    match scenario {
        "hang" => processes::hang(),
        "flood" => flood::forever(b"x: x\n"),
        "nothing" => {}
        "dies" => {
            print(good);
            return 3;
        }
        "bad-utf8" => drop(print(b"provider: \xff\n")),
        "utf16" => drop(print(good.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())),
        "deep" => drop(print(format!("provider: {}", "[".repeat(100_000)))),
        "deep-blocks" => drop(print((0..700).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>())),
        "aliases" => drop(print(aliases())),
        "loop" => drop(print("provider: &a {type: *a}\n")),
        "list" => drop(print("- provider\n")),
        "tab" => drop(print("provider:\n\ttype: tt\n")),
        "two-documents" => drop(print(format!("{good}---\n{good}"))),
        "reserved" => drop(print(good.replace("    v:", "    ral_v:"))),
        "escapes" => drop(print("\u{1b}[2J\u{7}provider:\u{1b}]0;x\u{7}\n")),
        other => {
            eprintln!("error: there is no scenario {other}");
            return 64;
        }
    }
    0
}

/// Returns a "billion laughs" document.
fn aliases() -> String {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ('b'..='j').zip('a'..) {
        text += &format!("{name}: &{name} [{}]\n", [format!("*{before}").as_str(); 9].join(", "));
    }
    text + "provider: {type: *j}\n"
}
