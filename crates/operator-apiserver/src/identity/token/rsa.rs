//! Generates RSA keys, which the signing library does not support.

use dashu_int::UBig;
use dashu_int::fast_div::ConstDivisor;
use dashu_int::ops::BitTest;
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};

/// The number of bits of each of the two primes.
const PRIME_BITS: usize = 1024;
const PRIME_BYTES: usize = 128;
const PUBLIC_EXPONENT: u32 = 65_537;
/// Candidates with a factor below this limit are dropped before the expensive test.
const SIEVE_LIMIT: u32 = 8192;
/// The bases of the Miller-Rabin test. The probability that a random candidate of this size passes all of them without
/// being prime is far below 2^-100.
const BASES: [u32; 8] = [2, 3, 5, 7, 11, 13, 17, 19];

/// Creates a key of 2048 bits, as the DER of a PKCS#1 `RSAPrivateKey`. Takes tens of milliseconds, or a second
/// without optimization.
///
/// # Errors
/// Returns an error if the system has no randomness.
pub(super) fn make() -> Result<Vec<u8>, Unspecified> {
    let random = SystemRandom::new();
    let sieve = small_primes();
    loop {
        let (first, second) = (prime(&random, &sieve)?, prime(&random, &sieve)?);
        if let Some(key) = Key::of(first.clone().max(second.clone()), first.min(second)) {
            return Ok(key.to_der());
        }
    }
}

/// The numbers of a private key, in the order of their encoding.
struct Key([UBig; 8]);

impl Key {
    /// Returns the key of two primes, the greater one first. Returns `None` if the primes are equal or incompatible
    /// with the exponent.
    fn of(p: UBig, q: UBig) -> Option<Self> {
        let exponent = UBig::from(PUBLIC_EXPONENT);
        let (below_p, below_q) = (&p - UBig::ONE, &q - UBig::ONE);
        let private = inverse(&exponent, &below_p * &below_q)?;
        let (of_p, of_q) = (&private % &below_p, &private % &below_q);
        let coefficient = inverse(&q, p.clone())?;
        Some(Self([&p * &q, exponent, private, p, q, of_p, of_q, coefficient]))
    }

    fn to_der(&self) -> Vec<u8> {
        yasna::construct_der(|writer| {
            writer.write_sequence(|numbers| {
                numbers.next().write_u8(0);
                for number in &self.0 {
                    numbers.next().write_bigint_bytes(&number.to_be_bytes(), true);
                }
            });
        })
    }
}

/// Returns the inverse of a number modulo another, if it has one.
fn inverse(number: &UBig, modulus: UBig) -> Option<UBig> {
    let ring = ConstDivisor::new(modulus);
    Some(ring.reduce(number.clone()).inv()?.residue())
}

/// Returns a random prime whose two highest bits are set, so that the product of two primes has twice as many bits.
fn prime(random: &SystemRandom, sieve: &[u32]) -> Result<UBig, Unspecified> {
    loop {
        let mut bytes = [0; PRIME_BYTES];
        random.fill(&mut bytes)?;
        let mut start = UBig::from_be_bytes(&bytes);
        for bit in [0, PRIME_BITS - 2, PRIME_BITS - 1] {
            start.set_bit(bit);
        }
        if let Some(prime) = prime_from(&start, sieve) {
            return Ok(prime);
        }
    }
}

/// The length of the interval after a random number that is searched for a prime; it nearly always contains one.
const SEARCH: u32 = 20_000;

fn prime_from(start: &UBig, sieve: &[u32]) -> Option<UBig> {
    let rest = |prime: &u32| start % *prime;
    let rests: Vec<u32> = sieve.iter().map(rest).collect();
    let has_no_small_factor = |offset: &u32| {
        sieve
            .iter()
            .zip(&rests)
            .all(|(prime, rest)| !(rest + offset).is_multiple_of(*prime))
    };
    (0..SEARCH)
        .step_by(2)
        .filter(has_no_small_factor)
        .map(|offset| start + offset)
        .find(|candidate| candidate.bit_len() == PRIME_BITS && is_prime(candidate))
}

/// Runs the Miller-Rabin test on an odd number that is greater than every base.
fn is_prime(candidate: &UBig) -> bool {
    let below = candidate - UBig::ONE;
    let twos = below.trailing_zeros().unwrap_or(0);
    let odd = &below >> twos;
    let ring = ConstDivisor::new(candidate.clone());
    BASES.iter().all(|base| {
        let mut power = ring.reduce(*base).pow(&odd);
        if power.residue() == UBig::ONE || power.residue() == below {
            return true;
        }
        for _ in 1..twos {
            power = power.sqr();
            if power.residue() == below {
                return true;
            }
        }
        false
    })
}

/// Returns the odd primes below [`SIEVE_LIMIT`].
fn small_primes() -> Vec<u32> {
    let mut primes: Vec<u32> = Vec::new();
    for number in (3..SIEVE_LIMIT).step_by(2) {
        let is_prime = primes
            .iter()
            .take_while(|prime| **prime * **prime <= number)
            .all(|prime| !number.is_multiple_of(*prime));
        if is_prime {
            primes.push(number);
        }
    }
    primes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_recognized() {
        let number = |text: &str| text.parse::<UBig>().unwrap();
        assert!(is_prime(&number("618970019642690137449562111"))); // 2^89 - 1
        // A product of two primes, and Carmichael numbers.
        for composite in [
            "1000036000099",
            "1590231231043178376951698401",
            "3215031751",
            "825265",
        ] {
            assert!(!is_prime(&number(composite)), "{composite}");
        }
        assert_eq!(small_primes()[..5], [3, 5, 7, 11, 13]);
    }

    #[test]
    fn a_new_key_is_one_that_signs() {
        let key = ring::rsa::KeyPair::from_der(&make().unwrap()).unwrap();
        assert_eq!(key.public().modulus_len(), 256);
    }
}
