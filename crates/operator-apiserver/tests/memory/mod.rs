//! The memory of a process, for tests and measurements.

/// Returns a figure of `/proc/PROCESS/status` in bytes, such as `VmRSS`, the resident memory. `process` is a number or
/// `self`. Returns `None` if the process has ended.
pub(crate) fn memory_of(process: &str, figure: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    let kilobytes: u64 = line?.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}
