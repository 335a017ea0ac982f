//! The range of the cluster addresses of services, as plain arithmetic.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A range of IPv4 addresses for services, such as `10.0.0.0/24`. The first one is that of `kubernetes`.
///
/// ```
/// # use operator_apiserver::ServiceNetwork;
/// let network: ServiceNetwork = "10.96.0.0/12".parse()?;
/// assert_eq!(network.to_string(), "10.96.0.0/12");
/// # Ok::<(), operator_apiserver::NetworkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    base: u32,
    prefix: u32,
}

/// The reason why a text is not a valid range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Not a range of IPv4 addresses.
    #[error("it is not a range of IPv4 addresses like 10.0.0.0/24")]
    Form,
    /// Too few addresses.
    #[error("the service cluster IP range must be at least 8 IP addresses")]
    Small,
}

impl FromStr for ServiceNetwork {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = text.split_once('/').ok_or(NetworkError::Form)?;
        let address: Ipv4Addr = address.parse().map_err(|_| NetworkError::Form)?;
        match prefix.parse() {
            Ok(prefix @ 1..=29) => Ok(Self {
                base: u32::from(address) & (u32::MAX << (32 - prefix)),
                prefix,
            }),
            Ok(30..=32) => Err(NetworkError::Small),
            _ => Err(NetworkError::Form),
        }
    }
}

impl fmt::Display for ServiceNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

impl Default for ServiceNetwork {
    /// 10.0.0.0/24, the range of envtest.
    fn default() -> Self {
        let base = u32::from(Ipv4Addr::new(10, 0, 0, 0));
        Self { base, prefix: 24 }
    }
}

impl ServiceNetwork {
    /// Returns the number of addresses, without those of the network and for broadcasts.
    pub(crate) fn hosts(self) -> u32 {
        (u32::MAX >> self.prefix) - 1
    }

    /// Returns the address with a number, from 1 on.
    pub(crate) fn host(self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.base | number)
    }

    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) >> (32 - self.prefix) == self.base >> (32 - self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::{NetworkError, ServiceNetwork};

    #[test]
    fn the_addresses_are_those_of_the_range() {
        assert_eq!("10.0.0.0/24".parse(), Ok(ServiceNetwork::default()));
        let network: ServiceNetwork = "172.16.5.77/29".parse().unwrap();
        assert_eq!(network.to_string(), "172.16.5.72/29");
        assert_eq!(network.hosts(), 6);
        assert_eq!(network.host(1), Ipv4Addr::new(172, 16, 5, 73));
        assert!(network.contains(network.host(6)));
        assert!(!network.contains(Ipv4Addr::new(172, 16, 5, 80)));
        assert_eq!(ServiceNetwork::default().hosts(), 254);
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        for text in ["10.0.0.0", "10.0.0/24", "10.0.0.0/0", "10.0.0.0/33", "fd00::/108"] {
            assert_eq!(text.parse::<ServiceNetwork>(), Err(NetworkError::Form), "{text}");
        }
        assert_eq!("10.0.0.0/30".parse::<ServiceNetwork>(), Err(NetworkError::Small));
    }
}
