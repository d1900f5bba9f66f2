//! `[query_log]`: where samples of queries and answers go.

use std::path::Path;

use crate::config::reader::{Place, Table, Value};
use crate::query_log::{Settings, Target};

/// The largest number of answers of which one is logged.
pub(super) const MOST: u64 = 1_000_000_000;

/// Reads the table; paths are relative to `folder`. Gives where it says where to, too; none if it does not
/// say that.
pub(super) fn parse_query_log(table: &Table<'_, '_>, folder: &Path) -> Option<(Settings, Place)> {
    let (file, socket) = (table.optional("file"), table.optional("socket"));
    let path = |value: Value<'_, '_>| {
        let path = value.string("a path")?;
        Some((folder.join(path), value.place()))
    };
    let one_in = table.optional("one_in").and_then(|value| value.integer(1..=MOST, "a number"));
    let target = match (file, socket) {
        (Some(file), None) => path(file).map(|(path, place)| (Target::Lines(path), place)),
        (None, Some(socket)) => path(socket).map(|(path, place)| (Target::Dnstap(path), place)),
        (Some(_), Some(socket)) => {
            let help = "log to a file or to a socket; remove one of the keys";
            socket.key_error("file and socket exclude each other", help);
            None
        }
        (None, None) => {
            let help = "add file = \"queries.log\" for lines of JSON, or socket = \
                        \"/run/dnstap.sock\" for a reader of dnstap";
            table.place().error(table.report(), "it does not say where to log", help);
            None
        }
    };
    table.finish();
    let one_in = one_in.and_then(|number| u32::try_from(number).ok()).unwrap_or(1);
    target.map(|(target, place)| (Settings { target, one_in }, place))
}
