//! What changes when one manifest takes the place of another.

use std::collections::BTreeSet;

use crate::address::AddressTemplate;
use crate::auth::Detail;
use crate::fault::{Fault, item};
use crate::field::ConfigField;
use crate::manifest::Manifest;

impl Manifest {
    /// Does this manifest, in the place of `old`, send credentials elsewhere: other hosts, base URLs or URLs of a
    /// sign-in? A mode that is new or gone counts too.
    pub fn leads_elsewhere(&self, old: &Self) -> bool {
        let hosts = |manifest: &Self| manifest.hosts.iter().cloned().collect::<BTreeSet<_>>();
        hosts(self) != hosts(old) || self.places() != old.places() || self.host_fields() != old.host_fields()
    }

    /// Every address that it has, with the name of its field.
    fn places(&self) -> BTreeSet<(String, String)> {
        let mut places = BTreeSet::new();
        let mut add = |name: String, address: Option<&AddressTemplate>| {
            places.insert((name, address.map(|address| format!("{address:?}")).unwrap_or_default()));
        };
        add("base_url".to_owned(), Some(&self.base_url));
        add("test.base_url".to_owned(), self.test.base_url.as_ref());
        for auth in &self.auth {
            let mode = auth.mode.name();
            add(format!("{mode}.base_url"), auth.base_url.as_ref());
            add(format!("{mode}.test.base_url"), auth.test.as_ref().and_then(|test| test.base_url.as_ref()));
            match &auth.detail {
                Detail::OAuth2(oauth) => {
                    add(format!("{mode}.authorize_url"), Some(&oauth.authorize_url));
                    add(format!("{mode}.token_url"), Some(&oauth.token_url));
                    add(format!("{mode}.revoke_url"), oauth.revoke_url.as_ref());
                }
                Detail::App(app) => add(format!("{mode}.token_url"), Some(&app.token_url)),
                Detail::ApiKey | Detail::Basic { .. } => {}
            }
        }
        places
    }

    /// What the fields that name a host can hold without an account's doing.
    fn host_fields(&self) -> BTreeSet<(String, String)> {
        let hosts = self.config.iter().filter(|field| field.host);
        let values = |field: &ConfigField| (field.field.name.clone(), field.field.default_value.clone());
        hosts.map(values).collect()
    }

    /// The classes and labels that are less strict than those of the same actions in `old`, by their places.
    pub fn loosened(&self, old: &Self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (index, new) in self.actions.iter().map(|entry| &entry.spec).enumerate() {
            let Some(old) = old.actions.iter().map(|entry| &entry.spec).find(|spec| spec.name == new.name)
            else {
                continue;
            };
            let mut fault = |name: &str, message: String| {
                faults.push(Fault::new(format!("{}.{name}", item("actions", index)), message));
            };
            if new.class < old.class {
                fault("class", format!("may only become stricter; it was {}", old.class.name()));
            }
            let labels = [
                ("reads_private", old.reads_private, new.reads_private),
                ("reads_untrusted", old.reads_untrusted, new.reads_untrusted),
                ("sends_out", old.sends_out, new.sends_out),
            ];
            for (name, _, _) in labels.into_iter().filter(|(_, old, new)| *old && !new) {
                fault(name, "may only become stricter; it was true".to_owned());
            }
        }
        faults
    }
}
