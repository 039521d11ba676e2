//! The seconds of a run as CSV (RFC 4180), a row each.

use crate::profile::PROFILE;
use crate::scenario::watch::Row;

/// The columns, in order.
const NAMES: &str = "at_s,module,server,round,seconds,requests,bytes,faults,\
                     first_byte_p50_us,first_byte_p99_us,\
                     whole_p50_us,whole_p99_us,cpu_s,resident_bytes,anonymous_bytes,disk_read_bytes,\
                     disk_written_bytes,origin_requests,origin_bytes,profile";

pub(crate) fn write(rows: &[Row]) -> String {
    let mut out = format!("{NAMES}\r\n");
    for row in rows {
        let (second, used) = (&row.second, &row.used);
        let first = |quantile| second.first_byte_ns.value_at_quantile(quantile) / 1000;
        let whole = |quantile| second.whole_ns.value_at_quantile(quantile) / 1000;
        out.push_str(&format!(
            "{:.3},{},{},{},{:.3},",
            row.at_s,
            quoted(&row.module),
            row.server,
            row.round,
            row.seconds
        ));
        out.push_str(&format!("{},{},{},", second.requests, second.bytes, second.faults));
        out.push_str(&format!("{},{},{},{},", first(0.5), first(0.99), whole(0.5), whole(0.99)));
        out.push_str(&format!("{:.2},{},{},", used.cpu_seconds, used.resident_bytes, used.anonymous_bytes));
        out.push_str(&format!("{},{},", used.read_bytes, used.written_bytes));
        out.push_str(&format!("{},{},{PROFILE}\r\n", row.origin_requests, row.origin_bytes));
    }
    out
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
