//! Header fields as pairs of text: the one file that looks them up and prints them.

/// Names (as sent) and values, in order.
pub(crate) type Fields = Vec<(String, String)>;

/// The values of `name`, joined by `, `; `None` where the field is absent.
pub(crate) fn joined(fields: &[(String, String)], name: &str) -> Option<String> {
    let of_name = fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
    let all: Vec<&str> = of_name.map(|(_, value)| value.as_str()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Header lines, each with its line end.
pub(crate) fn lines<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    fields.into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// The fields from a caller's pairs.
pub(crate) fn owned(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The fields as pairs for a caller.
pub(crate) fn borrowed(fields: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}
