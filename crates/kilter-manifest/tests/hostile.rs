//! Hostile manifests cost an error and nothing else.

mod support;

use std::time::{Duration, Instant};

use kilter_manifest::{render, to_json};
use support::World;

/// Time limit of each test, sufficient for a slow machine.
const LONG: Duration = Duration::from_secs(10);

fn compile(world: &World, text: &str) -> usize {
    let start = Instant::now();
    let (result, sources) = world.compile(text);
    let problems = result.err().unwrap_or_default();
    render(&problems, &sources, true);
    to_json(&problems, &sources);
    let head: String = text.chars().take(200).collect();
    assert!(start.elapsed() < LONG, "it took {:?}: {head}", start.elapsed());
    problems.len()
}

#[test]
fn alias_expansion_limit_is_enforced() {
    let world = World::new();
    let mut laughs = String::from("vars:\n  a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    let mut merges = String::from("vars:\n  a0: &a0 { k: v }\n");
    let mut strings = String::from("vars:\n  a0: hahahahaha\n");
    let mut lists = String::from("vars:\n  a0: [1, 2]\n");
    for n in 1..40 {
        let m = n - 1;
        laughs.push_str(&format!("  a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}]\n"));
        merges.push_str(&format!("  a{n}: &a{n} {{ <<: [*a{m}, *a{m}, *a{m}], k{n}: v }}\n"));
        let text = format!("${{vars.a{m}}}").repeat(9);
        strings.push_str(&format!("  a{n}: \"{text}\"\n"));
        lists.push_str(&format!("  a{n}: [\"${{vars.a{m}}}\", \"${{vars.a{m}}}\"]\n"));
    }
    for text in [laughs, merges, strings, lists] {
        assert!(compile(&world, &text) > 0);
    }
}

#[test]
fn depth_is_bounded() {
    let world = World::new();
    let deep = 50_000;
    let mut aliases = String::from("vars:\n  a0: &a0 [1]\n");
    let mut vars = String::from("vars:\n  a0: 1\n");
    let mut merges = String::from("vars:\n  a0: &a0 { k: 1 }\n");
    for n in 1..3000 {
        aliases.push_str(&format!("  a{n}: &a{n} [*a{}]\n", n - 1));
        vars.push_str(&format!("  a{n}: \"${{vars.a{}}}\"\n", n - 1));
        merges.push_str(&format!("  a{n}: &a{n} {{ <<: *a{} }}\n", n - 1));
    }
    // Read from the far end, the chain is as deep as it is long.
    let backwards: String =
        vars.lines().skip(1).collect::<Vec<_>>().into_iter().rev().map(|l| format!("{l}\n")).collect();
    for text in [
        "[".repeat(deep),
        "{".repeat(deep),
        "{\"a\":".repeat(deep),
        format!("vars: {}", "[".repeat(200)) + &"]".repeat(200),
        "- ".repeat(deep),
        "a: &a ".repeat(deep),
        aliases,
        merges,
        format!("vars:\n{backwards}"),
        format!("vars: {{ a: \"${{{}1\" }}", "(".repeat(deep)),
    ] {
        assert!(compile(&world, &text) > 0, "{}", &text[..40]);
    }
    compile(&world, &vars);
}

#[test]
fn mutated_manifests_never_panic_and_always_end() {
    let world = World::new();
    let seed = "vars: &v\n  port: 8080\n  s: { sensitive: \"hunter2\" }\n  l: [1, 'two', \"th\\tree \
                ${vars.port}\"]\nresources:\n  file[/etc/a${vars.port}]:\n    content: |\n      x ${facts.os.family} \
                $${Y}\n    mode: 0644\n    notify: [service[s]]\n    when: facts.os.family == \"debian\" && vars.port \
                > 1\n  service[s]: { <<: *v, enable: true, meta: { retry: 3 } }\n  exec[t]: { command: [a, 'b'], \
                environment: { A: \"${exec[u].stdout}\" } }\n  exec[u]: { command: x }\n---\ninclude: [common.yaml]\n";
    let json = "{\"vars\":{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\n\"]},\"resources\":{\"file[/a]\":{\"content\":\"${vars.a[0]}\"}}}";
    let pieces = [
        "\t",
        "\n",
        " ",
        "  ",
        ":",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "${",
        "}",
        "$",
        "\"",
        "'",
        "&v ",
        "*v",
        "<<: *v\n",
        "|",
        ">",
        "#",
        "!",
        "?",
        "\u{0}",
        "é",
        "\u{feff}",
        "---\n",
        "...\n",
        "%",
        "@",
        "\\",
        "null",
        "0x",
        "1e9",
        "vars.",
        "exec[t].stdout",
        "sensitive: ",
        "\r\n",
        ",",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..6_000 {
        let mut text: Vec<char> = if round % 3 == 0 { json } else { seed }.chars().collect();
        for _ in 0..=random(5) {
            let at = random(text.len().max(1)).min(text.len());
            match random(4) {
                0 => {
                    let end = (at + random(12)).min(text.len());
                    text.drain(at..end);
                }
                1 => {
                    let end = (at + random(40)).min(text.len());
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = random(text.len().max(1)).min(text.len());
                    text.splice(to..to, copy);
                }
                _ => {
                    text.splice(at..at, pieces[random(pieces.len())].chars());
                }
            }
        }
        compile(&world, &text.into_iter().collect::<String>());
    }
}

#[test]
fn random_text_never_panics() {
    let world = World::new();
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..5_000 {
        let mut bytes = Vec::new();
        for _ in 0..40 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes()[..1 + (state % 3) as usize]);
        }
        compile(&world, &String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn composite_expansion_limit_is_enforced() {
    let mut text = String::from("types:\n");
    for level in 0..40 {
        let next = level + 1;
        let part = |side: &str| format!("      \"t{next}[${{self.name}}{side}]\": {{}}\n");
        text += &format!("  t{level}:\n    resources:\n{}{}", part("l"), part("r"));
    }
    text += "  t40: {}\nresources:\n  t0[x]: {}\n";
    let (compiled, sources) = World::new().compile(&text);
    let told = render(&compiled.map(|_| ()).expect_err("the manifest is wrong"), &sources, false);
    assert!(told.contains("more than 16 levels of composite resources"), "{told}");
}

#[test]
fn a_composite_type_may_have_many_resources() {
    let part =
        "      \"file[/${self.name}]\": { content: x, owner: root, mode: \"0644\", tags: [a, b, c, d, e, f, g, h] }\n";
    let mut text = format!("types:\n  t:\n    resources:\n{part}resources:\n");
    for number in 0..20_000 {
        text += &format!("  t[{number}]:\n");
    }
    assert_eq!(World::new().catalog(&text).resources.len(), 20_000);
}

#[test]
fn composite_relation_limit_is_enforced() {
    let parts: String = (0..1100).map(|n| format!("      \"file[/${{self.name}}{n}]\": {{}}\n")).collect();
    let text = format!("types:\n  t:\n    resources:\n{parts}resources:\n  t[x]:\n  t[y]: {{ require: \"t[x]\" }}\n");
    let (compiled, sources) = World::new().compile(&text);
    let told = render(&compiled.map(|_| ()).expect_err("the manifest is wrong"), &sources, false);
    assert!(told.contains("composite resources have more than 1000000 relations"), "{told}");
}
