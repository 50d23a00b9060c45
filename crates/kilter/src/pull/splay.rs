//! Delay that spreads the fetches of many hosts.

use std::time::Duration;

/// Returns the delay of the first fetch: the same for each start on a host, and different on different hosts.
pub(crate) fn first_delay(host: &str, splay: Duration) -> Duration {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    delay_of(&format!("{} {host}", machine.trim()), splay)
}

fn delay_of(identity: &str, splay: Duration) -> Duration {
    let digest = kilter_history::sha256(identity.as_bytes());
    let fraction = u32::from_str_radix(&digest[..8], 16).unwrap_or(0);
    splay.mul_f64(f64::from(fraction) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_hosts_are_stable_and_spread_over_the_splay() {
        let splay = Duration::from_secs(60);
        let delays: Vec<u64> = (0..600).map(|host| delay_of(&format!("web{host}"), splay).as_secs()).collect();
        assert!(delays.iter().all(|delay| *delay < 60));
        for tenth in 0..10 {
            let share = delays.iter().filter(|delay| **delay / 6 == tenth).count();
            assert!((30..=90).contains(&share), "{share} of 600 hosts in the tenth {tenth}");
        }
        assert_eq!(delay_of("web1", splay), delay_of("web1", splay));
        assert_eq!(delay_of("web1", Duration::ZERO), Duration::ZERO);
    }
}
