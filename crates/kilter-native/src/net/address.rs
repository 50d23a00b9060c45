//! Addresses of interfaces and routes, as texts.

use std::fmt;
use std::net::IpAddr;

use ecow::{EcoString, eco_format};

/// An address with the length of its prefix, or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    pub(super) address: IpAddr,
    pub(super) length: u8,
}

/// Returns the number of bits of addresses of a family.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Prefix {
    /// Parses an address; without a length it is a single one.
    pub(super) fn parse(text: &str) -> Result<Prefix, EcoString> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let refused =
            || eco_format!("`{text}` is not an address with a prefix length, such as 10.0.0.1/24 or fd00::1/64");
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let length = match length {
            Some(length) => length.parse().ok().filter(|length| *length <= bits(address)).ok_or_else(refused)?,
            None => bits(address),
        };
        Ok(Prefix { address, length })
    }

    /// Parses a network, whose address has no bits after its prefix.
    fn network(text: &str) -> Result<Prefix, EcoString> {
        let prefix = Prefix::parse(text)?;
        let network = Prefix { address: masked(prefix), length: prefix.length };
        match network == prefix {
            true => Ok(prefix),
            false => Err(eco_format!("`{text}` is an address within a network: the network is {network}")),
        }
    }

    /// Returns true for the addresses of a link that the kernel makes by itself.
    pub(super) fn is_link_local(self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.is_unicast_link_local())
    }
}

/// Returns the address without the bits after the prefix.
fn masked(prefix: Prefix) -> IpAddr {
    let shift = u32::from(bits(prefix.address) - prefix.length);
    match prefix.address {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() & u32::MAX.checked_shl(shift).unwrap_or(0)).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & u128::MAX.checked_shl(shift).unwrap_or(0)).into()),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A static route of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    /// None for the default route.
    pub(super) network: Option<Prefix>,
    pub(super) gateway: Option<IpAddr>,
    pub(super) metric: u32,
    pub(super) is_v6: bool,
}

/// Metric of a route without a declared one.
pub(super) fn default_metric(is_v6: bool) -> u32 {
    // The kernel gives this one to routes of IPv6 (`IP6_RT_PRIO_USER`).
    if is_v6 { 1024 } else { 0 }
}

impl Route {
    /// Parses a route to a network: `10.1.0.0/16 via 10.0.0.9 metric 100`.
    pub(super) fn parse(text: &str) -> Result<Route, EcoString> {
        let mut words = text.split_whitespace();
        match words.next() {
            Some("default" | "0.0.0.0/0" | "::/0") => Err(eco_format!("`{text}` is a default route: write `gateway`")),
            Some(network) => Route::rest(text, Some(Prefix::network(network)?), words),
            None => Err("a route begins with its network: 10.1.0.0/16 via 10.0.0.9".into()),
        }
    }

    /// Parses a default route: `10.0.0.254 metric 100`.
    pub(super) fn parse_default(text: &str) -> Result<Route, EcoString> {
        Route::rest(text, None, ["via"].into_iter().chain(text.split_whitespace()))
    }

    fn rest<'t>(
        text: &str,
        network: Option<Prefix>,
        mut words: impl Iterator<Item = &'t str>,
    ) -> Result<Route, EcoString> {
        let (mut gateway, mut metric) = (None, None);
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            match word {
                "via" if gateway.is_none() => {
                    gateway =
                        Some(value.parse().map_err(|_| eco_format!("`{value}` is not the address of a gateway"))?);
                }
                "metric" if metric.is_none() => {
                    metric =
                        Some(value.parse().map_err(|_| eco_format!("`{value}` is not a metric, which is a number"))?);
                }
                _ => {
                    return Err(eco_format!("`{word}` in `{text}`: after the address, a route has `via` and `metric`"));
                }
            }
        }
        let is_v6 = network.map(|network| network.address).or(gateway).is_some_and(|address| address.is_ipv6());
        if let (Some(network), Some(gateway)) = (network, gateway)
            && network.address.is_ipv4() != gateway.is_ipv4()
        {
            return Err(eco_format!("`{text}`: network and gateway belong to different families"));
        }
        Ok(Route { network, gateway, metric: metric.unwrap_or(default_metric(is_v6)), is_v6 })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, self.gateway) {
            (Some(network), Some(gateway)) => write!(f, "{network} via {gateway}")?,
            (Some(network), None) => write!(f, "{network}")?,
            (None, Some(gateway)) => write!(f, "{gateway}")?,
            (None, None) => f.write_str("default")?,
        }
        match self.metric == default_metric(self.is_v6) {
            true => Ok(()),
            false => write!(f, " metric {}", self.metric),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_one_form() {
        let address = |text| Prefix::parse(text).map(|prefix| prefix.to_string());
        assert_eq!(address("10.0.0.1/24").as_deref(), Ok("10.0.0.1/24"));
        assert_eq!(address("FD00:0::1").as_deref(), Ok("fd00::1/128"));
        let route = |text| Route::parse(text).map(|route| route.to_string());
        for text in ["10.1.0.0/16 via 10.0.0.9 metric 100", "10.2.0.0/16", "fd01::/48 via fd00::9"] {
            assert_eq!(route(text).as_deref(), Ok(text));
        }
        assert_eq!(route(" 10.1.0.0/16  metric 0").as_deref(), Ok("10.1.0.0/16"));
        assert_eq!(route("fd01::/48 metric 1024").as_deref(), Ok("fd01::/48"));
        let default = |text| Route::parse_default(text).map(|route| route.to_string());
        assert_eq!(default("10.0.0.254 metric 5").as_deref(), Ok("10.0.0.254 metric 5"));
        assert_eq!(default("fd00::1").as_deref(), Ok("fd00::1"));
    }

    #[test]
    fn invalid_texts_are_refused() {
        for text in ["", "10.0.0.1/33", "10.0.0/24", "::1/129", "eth0", "10.0.0.1/24/2", "10.0.0.1/-1"] {
            assert!(Prefix::parse(text).is_err(), "{text}");
        }
        for (text, why) in [
            ("10.1.2.3/16", "the network is 10.1.0.0/16"),
            ("default via 10.0.0.1", "write `gateway`"),
            ("10.1.0.0/16 via fd00::1", "different families"),
            ("10.1.0.0/16 dev eth0", "`dev` in"),
            ("10.1.0.0/16 via", "`` is not the address of a gateway"),
            ("10.1.0.0/16 metric x", "`x` is not a metric"),
            ("", "begins with its network"),
        ] {
            assert!(Route::parse(text).unwrap_err().contains(why), "{text}");
        }
        for text in ["", "x", "10.0.0.1/24", "10.0.0.1 10.0.0.2"] {
            assert!(Route::parse_default(text).is_err(), "{text}");
        }
    }
}
