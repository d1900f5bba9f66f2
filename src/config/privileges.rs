//! `[privileges]`: whose rights the server keeps once it listens.

use crate::config::reader::{Table, Value};

/// The table `[privileges]`. Without it the server stays who started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// The name of the user that the server becomes.
    pub user: String,
    /// The name of its group; the user's own if none.
    pub group: Option<String>,
}

impl Privileges {
    /// Reads the table. Whether there is such a user is for the machine that serves to say.
    pub(super) fn parse(table: &Table<'_, '_>) -> Option<Self> {
        let user = table.required("user", "name the user that the server is to become");
        let user = user.and_then(|value| account_name(&value));
        let group = table.optional("group").and_then(|value| account_name(&value));
        table.finish();
        Some(Self { user: user?, group })
    }
}

fn account_name(value: &Value<'_, '_>) -> Option<String> {
    let name = value.string("a name")?;
    // What passwd(5) cannot hold is nobody's name.
    let is_name = !name.is_empty() && !name.contains([':', '\n', '\0']);
    if !is_name {
        value.error(format!("{name:?} is not the name of a user or a group"), "as \"meridian\"");
    }
    is_name.then(|| name.to_owned())
}
