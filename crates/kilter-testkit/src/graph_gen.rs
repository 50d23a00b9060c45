//! Random shapes of graphs.

use fastrand::Rng;

/// Returns the edges of a random acyclic graph of `count` vertices. Edges may contradict the manifest order.
pub(crate) fn edges(rng: &mut Rng, count: u32) -> Vec<(u32, u32)> {
    if count < 2 {
        return Vec::new();
    }
    let mut pairs = match rng.u32(..8) {
        0 => chain(count),
        1 => fan(rng, count),
        2 => layers(rng, count),
        3 => diamonds(count),
        4 => {
            let mut pairs = chain(count);
            pairs.extend(random(rng, count, count / 2));
            pairs
        }
        5 => random(rng, count, count / 3),
        6 => random(rng, count, count * 3),
        _ => random(rng, count, count),
    };
    if rng.bool() {
        let mut order: Vec<u32> = (0..count).collect();
        rng.shuffle(&mut order);
        for (first, second) in &mut pairs {
            *first = order[*first as usize];
            *second = order[*second as usize];
        }
    }
    pairs
}

fn chain(count: u32) -> Vec<(u32, u32)> {
    (1..count).map(|v| (v - 1, v)).collect()
}

/// Returns a hub with all other vertices before it, after it, or on both sides.
fn fan(rng: &mut Rng, count: u32) -> Vec<(u32, u32)> {
    match rng.u32(..3) {
        0 => (1..count).map(|v| (0, v)).collect(),
        1 => (0..count - 1).map(|v| (v, count - 1)).collect(),
        _ => {
            let middle = count / 2;
            (0..middle).map(|v| (v, middle)).chain((middle + 1..count).map(|v| (middle, v))).collect()
        }
    }
}

fn layers(rng: &mut Rng, count: u32) -> Vec<(u32, u32)> {
    let width = rng.u32(1..=count.min(8));
    let mut pairs = Vec::new();
    for second in width..count {
        let layer = second / width;
        for _ in 0..rng.u32(1..=3) {
            pairs.push(((layer - 1) * width + rng.u32(..width), second));
        }
    }
    pairs
}

fn diamonds(count: u32) -> Vec<(u32, u32)> {
    let corners = (0..count.saturating_sub(3)).step_by(3);
    corners.flat_map(|v| [(v, v + 1), (v, v + 2), (v + 1, v + 3), (v + 2, v + 3)]).collect()
}

fn random(rng: &mut Rng, count: u32, edges: u32) -> Vec<(u32, u32)> {
    let mut pair = || {
        let first = rng.u32(..count - 1);
        (first, rng.u32(first + 1..count))
    };
    (0..edges).map(|_| pair()).collect()
}
