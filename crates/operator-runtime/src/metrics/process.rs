//! The `process_*` metrics, read from `/proc` at each scrape. They exist only on Linux.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

/// Linux reports process times in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usage {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    resident_bytes: Option<f64>,
    virtual_bytes: Option<f64>,
    virtual_bytes_max: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = Usage::read();
        if let Some(seconds) = usage.cpu_seconds {
            let help = "Total user and system CPU time spent in seconds";
            encoder
                .encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?
                .encode_counter::<[(&str, &str); 0], f64, f64>(&seconds, None)?;
        }
        for (name, help, value) in usage.gauges() {
            if let Some(value) = value {
                encoder
                    .encode_descriptor(name, help, None, MetricType::Gauge)?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

// === impl Usage ===

impl Usage {
    fn read() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = file("/proc/self/stat");
        let status = file("/proc/self/status");
        let limits = file("/proc/self/limits");
        let boot = boot_time(&file("/proc/stat"));
        Self {
            cpu_seconds: cpu_seconds(&stat),
            start_seconds: boot.and_then(|boot| Some(boot + ticks(&stat, 19)?)),
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            virtual_bytes_max: limit(&limits, "Max address space"),
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|entries| count(entries.count())),
            max_fds: limit(&limits, "Max open files"),
        }
    }

    fn gauges(&self) -> [(&'static str, &'static str, Option<f64>); 6] {
        [
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                self.max_fds,
            ),
            (
                "process_open_fds",
                "Number of open file descriptors",
                self.open_fds,
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                self.resident_bytes,
            ),
            (
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds",
                self.start_seconds,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                self.virtual_bytes,
            ),
            (
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes",
                self.virtual_bytes_max,
            ),
        ]
    }
}

/// Returns user and system time: fields 14 and 15 of `/proc/self/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    Some(ticks(stat, 11)? + ticks(stat, 12)?)
}

/// Returns the field at `index` after the name of the program, which may itself contain spaces and parentheses.
fn ticks(stat: &str, index: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(index)?.parse().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn kilobytes(status: &str, field: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: f64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// Returns the soft limit. As in Go, an unlimited one is the maximum number.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let value = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match value.split_whitespace().next()? {
        "unlimited" => Some(18_446_744_073_709_551_615.0),
        number => number.parse().ok(),
    }
}

fn count(entries: usize) -> f64 {
    u32::try_from(entries).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 5 0 0 0 150 50 0 0 20 0 4 0 1200 1 2 3";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(ticks(stat, 19), Some(12.0));
    }

    #[test]
    fn limits_and_sizes_are_found() {
        let limits = "Limit      Soft Limit  Hard Limit Units\nMax open files   1024    4096    files\n\
                      Max address space   unlimited   unlimited   bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(
            limit(limits, "Max address space"),
            Some(18_446_744_073_709_551_615.0)
        );
        assert_eq!(
            kilobytes("VmSize:\t 8 kB\nVmRSS:\t  4 kB\n", "VmRSS:"),
            Some(4096.0)
        );
    }

    #[test]
    fn malformed_files_have_no_values() {
        assert_eq!(cpu_seconds("7 (a"), None);
        assert_eq!(limit("Max open files", "Max open files"), None);
        assert_eq!(boot_time("btime x"), None);
    }
}
