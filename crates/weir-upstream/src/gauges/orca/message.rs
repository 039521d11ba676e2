//! The message OrcaLoadReport as Protocol Buffers write it. Pure.
//!
//! `1 cpu_utilization, 2 mem_utilization, 3 rps (old), 4 request_cost, 5 utilization, 6 rps_fractional,
//! 7 eps, 8 named_metrics, 9 application_utilization`: doubles, and maps of texts to doubles. Other fields
//! are skipped.

use super::Report;

/// Reads a message; `None` where it is none.
pub(super) fn report(bytes: &[u8]) -> Option<Report> {
    let mut report = Report::default();
    each(bytes, &mut |number, value| {
        match (number, value) {
            (1, Value::Fixed(value)) => report.add("cpu_utilization", value),
            (2, Value::Fixed(value)) => report.add("mem_utilization", value),
            (6, Value::Fixed(value)) => report.add("rps_fractional", value),
            (7, Value::Fixed(value)) => report.add("eps", value),
            (9, Value::Fixed(value)) => report.add("application_utilization", value),
            (4 | 5 | 8, Value::Bytes(entry)) => {
                let (name, value) = of_map(entry)?;
                report.add(&format!("named_metrics.{name}"), value);
            }
            _ => {}
        }
        Some(())
    })?;
    Some(report)
}

/// An entry of a map: `1` its key, `2` its value.
fn of_map(bytes: &[u8]) -> Option<(String, f64)> {
    let (mut name, mut number) = (String::new(), 0.0);
    each(bytes, &mut |field, value| {
        match (field, value) {
            (1, Value::Bytes(text)) => name = std::str::from_utf8(text).ok()?.to_owned(),
            (2, Value::Fixed(value)) => number = value,
            _ => {}
        }
        Some(())
    })?;
    Some((name, number))
}

enum Value<'m> {
    Fixed(f64),
    Bytes(&'m [u8]),
    Other,
}

/// Calls with each field.
fn each<'m>(mut rest: &'m [u8], found: &mut dyn FnMut(u64, Value<'m>) -> Option<()>) -> Option<()> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => {
                varint(&mut rest)?;
                Value::Other
            }
            1 => Value::Fixed(f64::from_le_bytes(taken(&mut rest, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(taken(&mut rest, length)?)
            }
            5 => {
                taken(&mut rest, 4)?;
                Value::Other
            }
            _ => return None,
        };
        found(tag >> 3, value)?;
    }
    Some(())
}

fn taken<'m>(rest: &mut &'m [u8], count: usize) -> Option<&'m [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = taken(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
