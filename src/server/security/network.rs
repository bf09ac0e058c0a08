//! Allowlists: the addresses from which a user may come.

use std::net::IpAddr;

/// The most bytes of an allowlist.
const TEXT_BYTES_MAX: usize = 4096;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    address: u128,
    /// How many leading bits of 128 count.
    bits: u32,
}

/// An address of version 4 as one of version 6, so that both are compared alike.
fn bits_of(address: IpAddr) -> u128 {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    address.to_bits()
}

impl Network {
    /// Parses `ADDRESS` or `ADDRESS/BITS`.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then(|| Self {
            address: bits_of(address),
            bits: 128 - width + bits,
        })
    }

    /// Parses a list between commas; `None` if one of its parts is no network.
    pub(super) fn parse_list(text: &str) -> Option<Vec<Self>> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        text.split(',').map(Self::parse).collect()
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let differs = self.address ^ bits_of(address);
        differs.checked_shr(128 - self.bits).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        for (network, address, is_in) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("10.1.2.0/24", "10.1.2.255", true),
            ("10.1.2.0/24", "10.1.3.0", false),
            ("10.1.2.0/24", "::ffff:10.1.2.9", true),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8::1", true),
            ("::/0", "10.0.0.1", true),
        ] {
            let networks = Network::parse_list(network).unwrap();
            let contains = networks[0].contains(address.parse().unwrap());
            assert_eq!(contains, is_in, "{network} {address}");
        }
        for text in [
            "",
            "x",
            "10.0.0.1/33",
            "10.0.0.1,",
            "::1/129",
            "10.0.0.1/-1",
        ] {
            assert!(Network::parse_list(text).is_none(), "{text}");
        }
        assert!(Network::parse_list(&"10.0.0.1,".repeat(1000)).is_none());
    }
}
