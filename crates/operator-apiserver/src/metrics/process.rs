//! Process metrics from Linux's `/proc`; empty on other systems.

use std::fs;

/// One process metric.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
    pub(super) value: f64,
}

/// The clock ticks per second, on all supported Linux targets.
const TICKS: f64 = 100.0;

/// Returns the metrics that can be read.
pub(super) fn figures() -> Vec<Figure> {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program name may contain spaces; it ends with the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<f64> = fields
        .split_whitespace()
        .map(|field| field.parse().unwrap_or_default())
        .collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| {
        let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        line.trim().parse::<f64>().ok()
    });
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let open_files = fs::read_dir("/proc/self/fd").ok().map(|list| list.count() as f64);
    let rows = [
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            field(14)
                .zip(field(15))
                .map(|(user, system)| (user + system) / TICKS),
        ),
        (
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            open_files,
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            resident_bytes(&status),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            field(22).zip(boot).map(|(ticks, boot)| boot + ticks / TICKS),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory size in bytes.",
            field(23),
        ),
    ];
    let figure = |(name, kind, help, value): (_, _, _, Option<f64>)| {
        value.map(|value| Figure {
            name,
            kind,
            help,
            value,
        })
    };
    rows.into_iter().filter_map(figure).collect()
}

/// Returns the resident memory. The size in `stat` is in pages, whose size depends on the machine.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}
