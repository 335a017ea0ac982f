//! The ranges of the cluster addresses of Services, as pure arithmetic: [`ServiceNetwork`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The ranges of addresses for Services, such as `10.0.0.0/24`, or one for each family: `10.0.0.0/24,fd00::/112`. The
/// first address of the first range belongs to the Service `kubernetes`.
///
/// ```
/// # use operator_apiserver::ServiceNetwork;
/// let network: ServiceNetwork = "10.96.0.0/12".parse()?;
/// assert_eq!(network.to_string(), "10.96.0.0/12");
/// let dual: ServiceNetwork = "10.96.0.0/12,fd00:10::/112".parse()?;
/// # Ok::<(), operator_apiserver::NetworkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    first: Range,
    second: Option<Range>,
}

/// The reason why a text is not a valid range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Not a range of addresses.
    #[error("it must be a range of addresses such as 10.0.0.0/24")]
    Form,
    /// Too few addresses.
    #[error("the service cluster IP range must be at least 8 IP addresses")]
    Small,
    /// Two ranges of the same family.
    #[error("the two ranges must be of different IP family")]
    Families,
    /// More than two ranges.
    #[error("it must not contain more than two entries")]
    Many,
}

/// An address family of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// A range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    family: Family,
    base: u128,
    prefix: u32,
}

impl FromStr for Range {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.trim().split_once('/').ok_or(NetworkError::Form)?;
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Form)?;
        let prefix: u32 = prefix.parse().map_err(|_| NetworkError::Form)?;
        let family = Family::of(address);
        let bits = bits(family);
        if prefix == 0 || prefix > bits {
            return Err(NetworkError::Form);
        }
        if bits - prefix < 3 {
            return Err(NetworkError::Small);
        }
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        Ok(Self {
            family,
            base: number >> (bits - prefix) << (bits - prefix),
            prefix,
        })
    }
}

fn bits(family: Family) -> u32 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

impl Range {
    pub(crate) fn family(self) -> Family {
        self.family
    }

    /// Returns the number of usable addresses, without the network address and the IPv4 broadcast address.
    pub(crate) fn hosts(self) -> u128 {
        let all = u128::MAX >> (128 - (bits(self.family) - self.prefix));
        match self.family {
            Family::V4 => all - 1,
            Family::V6 => all,
        }
    }

    /// Returns the usable address with a number, which starts from 1.
    pub(crate) fn host(self, number: u128) -> IpAddr {
        let address = self.base | number;
        match self.family {
            // The base of an IPv4 range has 32 bits.
            Family::V4 => Ipv4Addr::from(u32::try_from(address).unwrap_or_default()).into(),
            Family::V6 => Ipv6Addr::from(address).into(),
        }
    }

    /// Returns true if the address is a usable address of the range.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        Family::of(address) == self.family && number > self.base && number - self.base <= self.hosts()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.host(0), self.prefix)
    }
}

impl FromStr for ServiceNetwork {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let mut ranges = text.split(',');
        let first: Range = ranges.next().unwrap_or_default().parse()?;
        let second: Option<Range> = ranges.next().map(str::parse).transpose()?;
        if ranges.next().is_some() {
            return Err(NetworkError::Many);
        }
        if second.is_some_and(|second| second.family == first.family) {
            return Err(NetworkError::Families);
        }
        Ok(Self { first, second })
    }
}

impl fmt::Display for ServiceNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.first)?;
        match self.second {
            Some(second) => write!(formatter, ",{second}"),
            None => Ok(()),
        }
    }
}

impl Default for ServiceNetwork {
    /// Returns 10.0.0.0/24, the range of envtest.
    fn default() -> Self {
        let first = Range {
            family: Family::V4,
            base: u128::from(u32::from(Ipv4Addr::new(10, 0, 0, 0))),
            prefix: 24,
        };
        Self { first, second: None }
    }
}

impl ServiceNetwork {
    /// Returns the ranges: one, or one of each family.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range> {
        std::iter::once(self.first).chain(self.second)
    }

    /// Returns the address of the Service `kubernetes`.
    pub(crate) fn kubernetes(self) -> IpAddr {
        self.first.host(1)
    }

    /// Returns the families of the cluster, the preferred one first.
    pub(crate) fn families(self) -> Vec<Family> {
        self.ranges().map(Range::family).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_addresses_are_those_of_the_range() {
        assert_eq!("10.0.0.0/24".parse(), Ok(ServiceNetwork::default()));
        let range: Range = "172.16.5.77/29".parse().unwrap();
        assert_eq!(range.to_string(), "172.16.5.72/29");
        assert_eq!(range.hosts(), 6);
        assert_eq!(range.host(1), address("172.16.5.73"));
        for number in 1..=6 {
            assert!(range.contains(range.host(number)));
        }
        for outside in ["172.16.5.72", "172.16.5.79", "172.16.5.80", "fd00::1"] {
            assert!(!range.contains(address(outside)), "{outside}");
        }
        let range: Range = "fd00:10::/112".parse().unwrap();
        assert_eq!(range.hosts(), 0xffff);
        assert_eq!(range.host(0xffff), address("fd00:10::ffff"));
        assert!(range.contains(address("fd00:10::ffff")) && !range.contains(address("fd00:10::")));
        assert!(!range.contains(address("fd00:11::1")) && !range.contains(address("10.0.0.1")));
        let largest: Range = "8000::/1".parse().unwrap();
        assert_eq!(largest.hosts(), u128::MAX >> 1);
    }

    #[test]
    fn a_network_has_at_most_one_range_of_each_family() {
        let network: ServiceNetwork = "fd00::/112, 10.0.0.0/24".parse().unwrap();
        assert_eq!(network.families(), [Family::V6, Family::V4]);
        assert_eq!(network.kubernetes(), address("fd00::1"));
        assert_eq!(network.to_string(), "fd00::/112,10.0.0.0/24");
        let cases = [
            ("10.0.0.0/24,10.1.0.0/24", NetworkError::Families),
            ("10.0.0.0/24,fd00::/112,fd01::/112", NetworkError::Many),
            ("10.0.0.0/30", NetworkError::Small),
            ("fd00::/126", NetworkError::Small),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<ServiceNetwork>(), Err(error), "{text}");
        }
        for text in [
            "10.0.0.0",
            "10.0.0/24",
            "10.0.0.0/0",
            "10.0.0.0/33",
            "fd00::/129",
            "",
        ] {
            assert_eq!(text.parse::<ServiceNetwork>(), Err(NetworkError::Form), "{text}");
        }
    }
}
