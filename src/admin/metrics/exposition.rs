//! The two text formats: that of Prometheus (0.0.4) and OpenMetrics 1.0. They differ in how a counter and
//! an info are named, in units, and in the last line.

use std::fmt::Write as _;

use crate::tally::histogram::Buckets;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// A metric: all series of one name. Counters are named without `_total`, infos without `_info`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The unit, with which the name ends.
    pub(super) unit: Option<&'static str>,
    pub(super) help: &'static str,
}

/// Labels with their values; those without a value are left out.
pub(super) type Labels<'l> = &'l [(&'static str, &'l str)];

/// Metrics as text.
#[derive(Debug)]
pub(super) struct Exposition {
    format: Format,
    text: String,
}

impl Format {
    /// The format that a client prefers by its Accept header (RFC 9110 section 12.5.1).
    pub(super) fn accepted(accept: &str) -> Self {
        let quality = |name: &str| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let is_it = parts.next()?.eq_ignore_ascii_case(name);
                let q = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
                is_it.then(|| q.unwrap_or(1.0))
            });
            ranges.fold(0.0, f32::max)
        };
        let open_metrics = quality("application/openmetrics-text");
        if open_metrics > 0.0 && open_metrics >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Kind {
    fn word(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Histogram, _) => "histogram",
            (Self::Info, Format::OpenMetrics) => "info",
            (Self::Gauge | Self::Info, _) => "gauge",
        }
    }

    /// What the names of its samples end with.
    fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::new() }
    }

    /// Begins a metric, whose samples follow. It is named even if it has none.
    pub(super) fn begin(&mut self, metric: &Metric) {
        let Metric { name, kind, unit, help } = metric;
        let word = kind.word(self.format);
        let (of_family, unit) = match self.format {
            Format::Prometheus => (kind.suffix(), None),
            Format::OpenMetrics => ("", unit.as_ref()),
        };
        self.line(format_args!("# HELP {name}{of_family} {help}"));
        self.line(format_args!("# TYPE {name}{of_family} {word}"));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
    }

    /// One sample of a metric.
    pub(super) fn sample(&mut self, metric: &Metric, labels: Labels<'_>, value: f64) {
        self.series(metric.name, metric.kind.suffix(), labels);
        self.line(format_args!(" {value}"));
    }

    /// A count is written exactly.
    pub(super) fn count(&mut self, metric: &Metric, labels: Labels<'_>, count: u64) {
        self.series(metric.name, metric.kind.suffix(), labels);
        self.line(format_args!(" {count}"));
    }

    /// A metric with one sample at most.
    pub(super) fn single(&mut self, metric: &Metric, value: Option<f64>) {
        self.begin(metric);
        if let Some(value) = value {
            self.sample(metric, &[], value);
        }
    }

    /// A histogram.
    pub(super) fn histogram(&mut self, metric: &Metric, buckets: &Buckets) {
        self.begin(metric);
        for (bound, count) in &buckets.cumulative {
            self.series(metric.name, "_bucket", &[("le", &format!("{bound:?}"))]);
            self.line(format_args!(" {count}"));
        }
        self.series(metric.name, "_bucket", &[("le", "+Inf")]);
        self.line(format_args!(" {}", buckets.count));
        self.line(format_args!("{}_sum {}", metric.name, buckets.sum));
        self.line(format_args!("{}_count {}", metric.name, buckets.count));
    }

    /// All of it.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.text
    }

    fn series(&mut self, name: &str, suffix: &str, labels: Labels<'_>) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            self.text.push(separator);
            self.text.push_str(label);
            self.text.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A string takes whatever is written.
        let _written = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;\
                          q=0.5,*/*;q=0.1";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain, application/openmetrics-text;q=0.5", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept:?}");
        }
    }

    #[test]
    fn both_formats() {
        let counter =
            Metric { name: "a_seconds", kind: Kind::Counter, unit: Some("seconds"), help: "A." };
        let info = Metric { name: "b", kind: Kind::Info, unit: None, help: "B." };
        let write = |format| {
            let mut out = Exposition::new(format);
            out.begin(&counter);
            out.count(&counter, &[("x", "a\"b\\c\n"), ("y", "")], 7);
            out.begin(&info);
            out.sample(&info, &[], 1.0);
            out.finish()
        };
        let samples = ["a_seconds_total{x=\"a\\\"b\\\\c\\n\"} 7\n", "b_info 1\n"];
        assert_eq!(
            write(Format::Prometheus),
            format!(
                "# HELP a_seconds_total A.\n# TYPE a_seconds_total counter\n{}\
                 # HELP b_info B.\n# TYPE b_info gauge\n{}",
                samples[0], samples[1]
            )
        );
        assert_eq!(
            write(Format::OpenMetrics),
            format!(
                "# HELP a_seconds A.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n{}\
                 # HELP b B.\n# TYPE b info\n{}# EOF\n",
                samples[0], samples[1]
            )
        );
    }

    #[test]
    fn a_histogram_has_cumulative_buckets() {
        let metric = Metric { name: "h", kind: Kind::Histogram, unit: None, help: "H." };
        let mut out = Exposition::new(Format::Prometheus);
        out.histogram(&metric, &Buckets { cumulative: vec![(1.0, 2)], count: 3, sum: 4.5 });
        let text = out.finish();
        let expected = "h_bucket{le=\"1.0\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4.5\nh_count 3\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
