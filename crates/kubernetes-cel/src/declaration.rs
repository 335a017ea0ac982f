//! The functions of Kubernetes 1.36: all overloads with their types.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::{Type, parse, split_top_level};

/// One overload of a function.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    pub(crate) is_member: bool,
    /// The types of the arguments, including the receiver, which is the first.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

/// Returns the overloads of a function.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in DECLARATIONS
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if let Some((name, overload)) = declaration(line) {
            functions.entry(name).or_default().push(overload);
        }
    }
    functions
});

/// Parses `name(args) -> result` or `receiver . name(args) -> result`.
fn declaration(line: &'static str) -> Option<(&'static str, Overload)> {
    let (call, result) = line.split_once(" -> ")?;
    let (receiver, call) = match call.split_once(" . ") {
        Some((receiver, call)) => (Some(receiver), call),
        None => (None, call),
    };
    let (name, args) = call.strip_suffix(')')?.split_once('(')?;
    let args = receiver
        .into_iter()
        .chain(split_top_level(args))
        .map(parse)
        .collect();
    Some((
        name,
        Overload {
            is_member: receiver.is_some(),
            args,
            result: parse(result),
        },
    ))
}

const DECLARATIONS: &str = "
_?_:_(bool, A, A) -> A
_&&_(bool, bool) -> bool
_||_(bool, bool) -> bool
!_(bool) -> bool
@not_strictly_false(bool) -> bool
_==_(A, A) -> bool
_!=_(A, A) -> bool
_+_(int, int) -> int
_+_(uint, uint) -> uint
_+_(double, double) -> double
_+_(string, string) -> string
_+_(bytes, bytes) -> bytes
_+_(list<A>, list<A>) -> list<A>
_+_(timestamp, duration) -> timestamp
_+_(duration, timestamp) -> timestamp
_+_(duration, duration) -> duration
_-_(int, int) -> int
_-_(uint, uint) -> uint
_-_(double, double) -> double
_-_(timestamp, timestamp) -> duration
_-_(timestamp, duration) -> timestamp
_-_(duration, duration) -> duration
_*_(int, int) -> int
_*_(uint, uint) -> uint
_*_(double, double) -> double
_/_(int, int) -> int
_/_(uint, uint) -> uint
_/_(double, double) -> double
_%_(int, int) -> int
_%_(uint, uint) -> uint
-_(int) -> int
-_(double) -> double
_[_](list<A>, int) -> A
_[_](map<K, V>, K) -> V
_[_](optional<list<V>>, int) -> optional<V>
_[_](optional<map<K, V>>, K) -> optional<V>
_[?_](list<V>, int) -> optional<V>
_[?_](optional<list<V>>, int) -> optional<V>
_[?_](map<K, V>, K) -> optional<V>
_[?_](optional<map<K, V>>, K) -> optional<V>
@in(A, list<A>) -> bool
@in(K, map<K, V>) -> bool
size(string) -> int
size(bytes) -> int
size(list<A>) -> int
size(map<K, V>) -> int
string . size() -> int
bytes . size() -> int
list<A> . size() -> int
map<K, V> . size() -> int
type(A) -> type<A>
dyn(A) -> dyn
bool(bool) -> bool
bool(string) -> bool
bytes(bytes) -> bytes
bytes(string) -> bytes
double(double) -> double
double(int) -> double
double(string) -> double
double(uint) -> double
duration(duration) -> duration
duration(string) -> duration
duration(int) -> duration
int(int) -> int
int(double) -> int
int(duration) -> int
int(string) -> int
int(timestamp) -> int
int(uint) -> int
string(string) -> string
string(bool) -> string
string(bytes) -> string
string(double) -> string
string(duration) -> string
string(int) -> string
string(timestamp) -> string
string(uint) -> string
timestamp(timestamp) -> timestamp
timestamp(int) -> timestamp
timestamp(string) -> timestamp
uint(uint) -> uint
uint(double) -> uint
uint(int) -> uint
uint(string) -> uint
matches(string, string) -> bool
string . matches(string) -> bool
string . contains(string) -> bool
string . startsWith(string) -> bool
string . endsWith(string) -> bool
timestamp . getFullYear() -> int
timestamp . getFullYear(string) -> int
timestamp . getMonth() -> int
timestamp . getMonth(string) -> int
timestamp . getDayOfYear() -> int
timestamp . getDayOfYear(string) -> int
timestamp . getDayOfMonth() -> int
timestamp . getDayOfMonth(string) -> int
timestamp . getDate() -> int
timestamp . getDate(string) -> int
timestamp . getDayOfWeek() -> int
timestamp . getDayOfWeek(string) -> int
timestamp . getHours() -> int
timestamp . getHours(string) -> int
duration . getHours() -> int
timestamp . getMinutes() -> int
timestamp . getMinutes(string) -> int
duration . getMinutes() -> int
timestamp . getSeconds() -> int
timestamp . getSeconds(string) -> int
duration . getSeconds() -> int
timestamp . getMilliseconds() -> int
timestamp . getMilliseconds(string) -> int
duration . getMilliseconds() -> int
string . charAt(int) -> string
string . indexOf(string) -> int
string . indexOf(string, int) -> int
string . lastIndexOf(string) -> int
string . lastIndexOf(string, int) -> int
string . lowerAscii() -> string
string . upperAscii() -> string
string . replace(string, string) -> string
string . replace(string, string, int) -> string
string . split(string) -> list<string>
string . split(string, int) -> list<string>
string . substring(int) -> string
string . substring(int, int) -> string
string . trim() -> string
string . format(list<dyn>) -> string
strings.quote(string) -> string
list<string> . join() -> string
list<string> . join(string) -> string
list<int> . isSorted() -> bool
list<uint> . isSorted() -> bool
list<double> . isSorted() -> bool
list<bool> . isSorted() -> bool
list<duration> . isSorted() -> bool
list<timestamp> . isSorted() -> bool
list<string> . isSorted() -> bool
list<bytes> . isSorted() -> bool
list<int> . sum() -> int
list<uint> . sum() -> uint
list<double> . sum() -> double
list<duration> . sum() -> duration
list<int> . min() -> int
list<uint> . min() -> uint
list<double> . min() -> double
list<bool> . min() -> bool
list<duration> . min() -> duration
list<timestamp> . min() -> timestamp
list<string> . min() -> string
list<bytes> . min() -> bytes
list<int> . max() -> int
list<uint> . max() -> uint
list<double> . max() -> double
list<bool> . max() -> bool
list<duration> . max() -> duration
list<timestamp> . max() -> timestamp
list<string> . max() -> string
list<bytes> . max() -> bytes
list<A> . indexOf(A) -> int
list<A> . lastIndexOf(A) -> int
list<A> . distinct() -> list<A>
list<A> . slice(int, int) -> list<A>
list<list<A>> . flatten() -> list<A>
list<dyn> . flatten(int) -> list<dyn>
list<int> . sort() -> list<int>
list<uint> . sort() -> list<uint>
list<double> . sort() -> list<double>
list<bool> . sort() -> list<bool>
list<duration> . sort() -> list<duration>
list<timestamp> . sort() -> list<timestamp>
list<string> . sort() -> list<string>
list<bytes> . sort() -> list<bytes>
list<A> . @sortByAssociatedKeys(list<int>) -> list<A>
list<A> . @sortByAssociatedKeys(list<uint>) -> list<A>
list<A> . @sortByAssociatedKeys(list<double>) -> list<A>
list<A> . @sortByAssociatedKeys(list<bool>) -> list<A>
list<A> . @sortByAssociatedKeys(list<duration>) -> list<A>
list<A> . @sortByAssociatedKeys(list<timestamp>) -> list<A>
list<A> . @sortByAssociatedKeys(list<string>) -> list<A>
list<A> . @sortByAssociatedKeys(list<bytes>) -> list<A>
list<A> . reverse() -> list<A>
list<A> . first() -> optional<A>
list<A> . last() -> optional<A>
lists.range(int) -> list<int>
sets.contains(list<A>, list<A>) -> bool
sets.equivalent(list<A>, list<A>) -> bool
sets.intersects(list<A>, list<A>) -> bool
string . find(string) -> string
string . findAll(string) -> list<string>
string . findAll(string, int) -> list<string>
url(string) -> kubernetes.URL
isURL(string) -> bool
kubernetes.URL . getScheme() -> string
kubernetes.URL . getHost() -> string
kubernetes.URL . getHostname() -> string
kubernetes.URL . getPort() -> string
kubernetes.URL . getEscapedPath() -> string
kubernetes.URL . getQuery() -> map<string, list<string>>
quantity(string) -> kubernetes.Quantity
isQuantity(string) -> bool
sign(kubernetes.Quantity) -> int
kubernetes.Quantity . isGreaterThan(kubernetes.Quantity) -> bool
kubernetes.Quantity . isLessThan(kubernetes.Quantity) -> bool
kubernetes.Quantity . compareTo(kubernetes.Quantity) -> int
kubernetes.Quantity . asApproximateFloat() -> double
kubernetes.Quantity . asInteger() -> int
kubernetes.Quantity . isInteger() -> bool
kubernetes.Quantity . add(kubernetes.Quantity) -> kubernetes.Quantity
kubernetes.Quantity . add(int) -> kubernetes.Quantity
kubernetes.Quantity . sub(kubernetes.Quantity) -> kubernetes.Quantity
kubernetes.Quantity . sub(int) -> kubernetes.Quantity
ip(string) -> net.IP
ip(net.CIDR) -> net.IP
net.CIDR . ip() -> net.IP
isIP(string) -> bool
ip.isCanonical(string) -> bool
net.IP . family() -> int
net.IP . isUnspecified() -> bool
net.IP . isLoopback() -> bool
net.IP . isLinkLocalMulticast() -> bool
net.IP . isLinkLocalUnicast() -> bool
net.IP . isGlobalUnicast() -> bool
string(net.IP) -> string
cidr(string) -> net.CIDR
isCIDR(string) -> bool
net.CIDR . containsIP(string) -> bool
net.CIDR . containsIP(net.IP) -> bool
net.CIDR . containsCIDR(string) -> bool
net.CIDR . containsCIDR(net.CIDR) -> bool
net.CIDR . masked() -> net.CIDR
net.CIDR . prefixLength() -> int
string(net.CIDR) -> string
format.named(string) -> optional<kubernetes.NamedFormat>
kubernetes.NamedFormat . validate(string) -> optional<list<string>>
format.dns1123Label() -> kubernetes.NamedFormat
format.dns1123Subdomain() -> kubernetes.NamedFormat
format.dns1035Label() -> kubernetes.NamedFormat
format.qualifiedName() -> kubernetes.NamedFormat
format.dns1123LabelPrefix() -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix() -> kubernetes.NamedFormat
format.dns1035LabelPrefix() -> kubernetes.NamedFormat
format.labelValue() -> kubernetes.NamedFormat
format.uri() -> kubernetes.NamedFormat
format.uuid() -> kubernetes.NamedFormat
format.byte() -> kubernetes.NamedFormat
format.date() -> kubernetes.NamedFormat
format.datetime() -> kubernetes.NamedFormat
semver(string) -> kubernetes.Semver
semver(string, bool) -> kubernetes.Semver
isSemver(string) -> bool
isSemver(string, bool) -> bool
kubernetes.Semver . isGreaterThan(kubernetes.Semver) -> bool
kubernetes.Semver . isLessThan(kubernetes.Semver) -> bool
kubernetes.Semver . compareTo(kubernetes.Semver) -> int
kubernetes.Semver . major() -> int
kubernetes.Semver . minor() -> int
kubernetes.Semver . patch() -> int
jsonpatch.escapeKey(string) -> string
kubernetes.authorization.Authorizer . path(string) -> kubernetes.authorization.PathCheck
kubernetes.authorization.Authorizer . group(string) -> kubernetes.authorization.GroupCheck
kubernetes.authorization.Authorizer . serviceAccount(string, string) -> kubernetes.authorization.Authorizer
kubernetes.authorization.PathCheck . check(string) -> kubernetes.authorization.Decision
kubernetes.authorization.GroupCheck . resource(string) -> kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck . subresource(string) -> kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck . namespace(string) -> kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck . name(string) -> kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck . fieldSelector(string) -> kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck . labelSelector(string) -> kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck . check(string) -> kubernetes.authorization.Decision
kubernetes.authorization.Decision . allowed() -> bool
kubernetes.authorization.Decision . reason() -> string
kubernetes.authorization.Decision . errored() -> bool
kubernetes.authorization.Decision . error() -> string
optional.of(A) -> optional<A>
optional.ofNonZeroValue(A) -> optional<A>
optional.none() -> optional<A>
optional.unwrap(list<optional<A>>) -> list<A>
list<optional<A>> . unwrapOpt() -> list<A>
optional<A> . hasValue() -> bool
optional<A> . value() -> A
optional<A> . or(optional<A>) -> optional<A>
optional<A> . orValue(A) -> A
cel.@mapInsert(map<K, V>, K, V) -> map<K, V>
cel.@mapInsert(map<K, V>, map<K, V>) -> map<K, V>
_<_(bool, bool) -> bool
_<_(int, int) -> bool
_<_(int, double) -> bool
_<_(int, uint) -> bool
_<_(uint, uint) -> bool
_<_(uint, double) -> bool
_<_(uint, int) -> bool
_<_(double, double) -> bool
_<_(double, int) -> bool
_<_(double, uint) -> bool
_<_(string, string) -> bool
_<_(bytes, bytes) -> bool
_<_(timestamp, timestamp) -> bool
_<_(duration, duration) -> bool
_<=_(bool, bool) -> bool
_<=_(int, int) -> bool
_<=_(int, double) -> bool
_<=_(int, uint) -> bool
_<=_(uint, uint) -> bool
_<=_(uint, double) -> bool
_<=_(uint, int) -> bool
_<=_(double, double) -> bool
_<=_(double, int) -> bool
_<=_(double, uint) -> bool
_<=_(string, string) -> bool
_<=_(bytes, bytes) -> bool
_<=_(timestamp, timestamp) -> bool
_<=_(duration, duration) -> bool
_>_(bool, bool) -> bool
_>_(int, int) -> bool
_>_(int, double) -> bool
_>_(int, uint) -> bool
_>_(uint, uint) -> bool
_>_(uint, double) -> bool
_>_(uint, int) -> bool
_>_(double, double) -> bool
_>_(double, int) -> bool
_>_(double, uint) -> bool
_>_(string, string) -> bool
_>_(bytes, bytes) -> bool
_>_(timestamp, timestamp) -> bool
_>_(duration, duration) -> bool
_>=_(bool, bool) -> bool
_>=_(int, int) -> bool
_>=_(int, double) -> bool
_>=_(int, uint) -> bool
_>=_(uint, uint) -> bool
_>=_(uint, double) -> bool
_>=_(uint, int) -> bool
_>=_(double, double) -> bool
_>=_(double, int) -> bool
_>=_(double, uint) -> bool
_>=_(string, string) -> bool
_>=_(bytes, bytes) -> bool
_>=_(timestamp, timestamp) -> bool
_>=_(duration, duration) -> bool
";
