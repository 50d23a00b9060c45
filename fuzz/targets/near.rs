//! Runs a target over its seeds and variants of them, as a test.

use std::path::Path;

/// Number of variants per seed.
const VARIANTS: u32 = 1000;

/// Runs a target over its seeds, and over variants with changed, removed and inserted bytes. The generator has a
/// fixed seed.
pub(crate) fn run(name: &str, target: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut files: Vec<_> =
        std::fs::read_dir(seeds).expect("there are seeds").map(|entry| entry.expect("a name").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut rng = fastrand::Rng::with_seed(4711);
    for file in files {
        let seed = std::fs::read(&file).expect("a seed");
        target(&seed);
        for _ in 0..VARIANTS {
            let mut variant = seed.clone();
            for _ in 0..rng.u32(1..4) {
                change(&mut variant, &mut rng);
            }
            target(&variant);
        }
    }
}

fn change(input: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    let at = rng.usize(..=input.len());
    match rng.u32(..4) {
        0 if at < input.len() => input[at] = rng.u8(..),
        1 if at < input.len() => drop(input.remove(at)),
        2 => input.truncate(at),
        _ => {
            let word = *rng.choice(&b"[]{},:\0\n'\"-$ 9"[..]).expect("there are some");
            input.insert(at, word);
        }
    }
}
