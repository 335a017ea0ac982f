//! Parses IP addresses, CIDRs ([`Cidr`]) and hardware addresses like Go's `net` and `netip`.

use std::net::IpAddr;

/// Parses an address. Leading zeros in IPv4 octets and zones are errors.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// An address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address, including its host bits.
    pub ip: IpAddr,
    /// The length of the prefix.
    pub bits: u8,
}

/// Parses a CIDR such as `10.0.0.0/8`. A sign and leading zeros in the length are errors.
pub fn parse_cidr(text: &str) -> Option<Cidr> {
    let (ip, bits) = text.split_once('/')?;
    let ip = parse_ip(ip)?;
    if bits.is_empty() || bits.len() > 3 || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if bits.len() > 1 && bits.starts_with('0') {
        return None;
    }
    let bits: u8 = bits.parse().ok()?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    (bits <= max).then_some(Cidr { ip, bits })
}

impl Cidr {
    fn number(ip: IpAddr) -> (u128, u8) {
        match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        }
    }

    fn mask(bits: u8, width: u8) -> u128 {
        let host = width.saturating_sub(bits);
        if host >= 128 { 0 } else { !0 << host }
    }

    /// Returns the network with all host bits cleared.
    pub fn masked(self) -> Self {
        let (number, width) = Self::number(self.ip);
        let number = number & Self::mask(self.bits, width);
        let ip = match self.ip {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(number & 0xffff_ffff).unwrap_or_default().into()),
            IpAddr::V6(_) => IpAddr::V6(number.into()),
        };
        Self { ip, bits: self.bits }
    }

    /// Returns true if the address is in the network.
    pub fn contains_ip(self, ip: IpAddr) -> bool {
        if self.ip.is_ipv4() != ip.is_ipv4() {
            return false;
        }
        Self { ip, bits: self.bits }.masked().ip == self.masked().ip
    }

    /// Returns true if all addresses of `other` are in the network.
    pub fn contains_cidr(self, other: Self) -> bool {
        self.contains_ip(other.ip) && self.bits <= other.bits
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

/// Returns true for the addresses that `net.ParseMAC` accepts: 6, 8 or 20 bytes, as `aa:bb:…`, `aa-bb-…` or
/// `aabb.ccdd.…`.
pub fn is_mac(text: &str) -> bool {
    let hex = |part: &str, len: usize| part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    [(':', 2, [6, 8, 20]), ('-', 2, [6, 8, 20]), ('.', 4, [3, 4, 10])]
        .iter()
        .any(|(separator, len, counts)| {
            let parts: Vec<&str> = text.split(*separator).collect();
            counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, *len))
        })
}
