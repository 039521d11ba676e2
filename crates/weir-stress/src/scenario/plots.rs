//! Plots as SVG texts: times by percentile, and what happened by second.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use hdrhistogram::Histogram;

/// The size of a plot in pixels.
const SIZE: (u32, u32) = (560, 300);
/// Colours that differ for everybody (Okabe, Ito: "Color Universal Design", 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];
/// The percentiles that are shown, as powers of ten that are left: 0 %, 90 %, …, 99.99 %.
const TAIL: f64 = 4.0;
/// Times that are less far apart are shown from zero on.
const LINEAR_BELOW: f64 = 20.0;
/// Fewer responses have no percentiles to show, and fewer seconds no course.
const RESPONSES_MIN: u64 = 20;
const SECONDS_MIN: usize = 4;
/// Points of a curve.
const POINTS: usize = 200;

/// The lines of one server: each turn by itself.
pub(crate) type Lines = Vec<Vec<(f64, f64)>>;

/// Times by percentile, in milliseconds. The tail is seen at its whole length, and times that are far apart
/// on a logarithmic axis.
pub(crate) fn percentiles(all: &[&Histogram<u64>]) -> Option<String> {
    let curve = |times: &Histogram<u64>| {
        let points = (0..=POINTS).map(|at| {
            let x = at as f64 / POINTS as f64 * TAIL;
            (x, times.value_at_quantile(1.0 - 10f64.powf(-x)) as f64 / 1e6)
        });
        if times.is_empty() {
            return Vec::new();
        }
        // No more of the tail than the responses can tell.
        let end = (times.len() as f64).log10().max(0.3);
        points.take_while(|(x, _)| *x <= end).collect::<Vec<_>>()
    };
    // A server without responses keeps its place, and so the others their colours.
    let lines: Vec<Lines> = all.iter().map(|times| vec![curve(times)]).collect();
    let values = || lines.iter().flatten().flatten().map(|(_, y)| *y);
    let low = values().fold(f64::MAX, f64::min).max(1e-4);
    let high = values().fold(0.0, f64::max).max(low * 1.1);
    if all.iter().all(|times| times.len() < RESPONSES_MIN) {
        return None;
    }
    let percent = |x: &f64| match x.round() {
        0.0 => "0 %".to_owned(),
        1.0 => "90 %".to_owned(),
        x => format!("99.{} %", "9".repeat((x as usize).saturating_sub(2))).replace(". ", " "),
    };
    match high / low < LINEAR_BELOW {
        true => draw(&lines, (0.0..TAIL, 0.0..high * 1.1), 4, &percent),
        false => draw(&lines, (0.0..TAIL, (low * 0.9..high * 1.1).log_scale()), 4, &percent),
    }
}

/// A figure by second.
pub(crate) fn by_second(lines: &[Lines]) -> Option<String> {
    let points = || lines.iter().flatten().flatten();
    let end = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let high = points().map(|(_, y)| *y).fold(0.0, f64::max);
    if points().count() < SECONDS_MIN || end <= 0.0 {
        return None;
    }
    let digits = usize::from(end < 6.0);
    let high = if high > 0.0 { high * 1.1 } else { 1.0 };
    draw(lines, (0.0..end, 0.0..high), 6, &|x| format!("{x:.digits$} s"))
}

fn draw<Y>(
    lines: &[Lines],
    (x, y): (std::ops::Range<f64>, Y),
    x_labels: usize,
    x_label: &dyn Fn(&f64) -> String,
) -> Option<String>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(36)
            .x_label_area_size(28)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .ok()?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .axis_style(RGBColor(120, 120, 120))
            .label_style(("sans-serif", 12))
            .x_labels(x_labels + 1)
            .y_labels(6)
            .x_label_formatter(x_label)
            .y_label_formatter(&|y| short(*y))
            .draw()
            .ok()?;
        for (at, line) in lines.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            for turn in line {
                let series = LineSeries::new(turn.iter().copied(), colour.stroke_width(2));
                chart.draw_series(series).ok()?;
            }
        }
        area.present().ok()?;
    }
    Some(svg)
}

/// The colour of a server as CSS writes it.
pub(crate) fn colour(at: usize) -> String {
    let RGBColor(red, green, blue) = COLOURS[at % COLOURS.len()];
    format!("rgb({red},{green},{blue})")
}

/// A number for an axis.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.1} G", value / 1e9),
        v if v >= 1e6 => format!("{:.1} M", value / 1e6),
        v if v >= 1e4 => format!("{:.0} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}
