//! The metrics that have the same names for Ganglia and the node exporter, as expressions over what these
//! call them. `cpu`, `io_wait` and `memory` are shares, 0 to 1.

use std::sync::LazyLock;

use weir_config::value::MetricExpression;

/// A known metric and the ways to compute it; the first that has a value counts.
pub(crate) type Known = Vec<(&'static str, Vec<MetricExpression>)>;

/// gmond's.
pub(crate) static GANGLIA: LazyLock<Known> = LazyLock::new(|| {
    known(&[
        ("cpu", &["1 - cpu_idle / 100"]),
        ("io_wait", &["cpu_wio / 100"]),
        (
            "memory",
            &["1 - mem_available / mem_total", "1 - (mem_free + mem_buffers + mem_cached) / mem_total"],
        ),
        ("load", &["load_one"]),
        ("network", &["bytes_in + bytes_out"]),
        ("temperature", &["cpu_temp", "temp"]),
        ("context_switches", &["cpu_ctxt", "ctxt"]),
    ])
});

/// The node exporter's.
pub(crate) static PROMETHEUS: LazyLock<Known> = LazyLock::new(|| {
    known(&[
        ("cpu", &["1 - rate(node_cpu_seconds_total{mode=\"idle\"})"]),
        ("io_wait", &["rate(node_cpu_seconds_total{mode=\"iowait\"})"]),
        ("memory", &["1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"]),
        ("load", &["node_load1"]),
        (
            "network",
            &["sum(rate(node_network_receive_bytes_total{device!=\"lo\"})) + \
               sum(rate(node_network_transmit_bytes_total{device!=\"lo\"}))"],
        ),
        ("temperature", &["max(node_hwmon_temp_celsius)", "max(node_thermal_zone_temp)"]),
        ("context_switches", &["rate(node_context_switches_total)"]),
    ])
});

fn known(rows: &[(&'static str, &[&str])]) -> Known {
    let parsed = |text: &&str| text.parse().ok();
    rows.iter().map(|(name, ways)| (*name, ways.iter().filter_map(parsed).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_have_the_same_names_and_all_ways_are_expressions() {
        let names = |known: &Known| known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(&GANGLIA), names(&PROMETHEUS));
        let ways = |known: &Known| known.iter().map(|(_, ways)| ways.len()).collect::<Vec<_>>();
        assert_eq!(
            (ways(&GANGLIA), ways(&PROMETHEUS)),
            (vec![1, 1, 2, 1, 1, 2, 2], vec![1, 1, 1, 1, 1, 2, 1])
        );
    }
}
