//! What this installation is called and how it looks, as the configuration says.

use std::fs;
use std::path::{Path, PathBuf};

use portico_kernel::{Accent, Brand, Logo, check_name};
use serde::Deserialize;
use url::Url;

use crate::config::{ConfigError, named};

/// As many as a narrow page and the subject of a mail have room for.
const NAME_CHARACTERS_MAX: usize = 40;

/// The table `[brand]` of the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrandTable {
    name: Option<String>,
    logo: Option<PathBuf>,
    accent: Option<String>,
    accent_dark: Option<String>,
    support_url: Option<String>,
    terms_url: Option<String>,
}

fn error(key: &str, message: impl std::fmt::Display) -> ConfigError {
    ConfigError(format!("brand.{key} {message}"))
}

fn logo(file: &Path) -> Result<Logo, ConfigError> {
    let bytes = fs::read(file).map_err(|cause| error("logo", format!("{}: {cause}", file.display())))?;
    Logo::new(bytes).map_err(|message| error("logo", format!("{} {message}", file.display())))
}

/// The address of a page or of a mailbox; empty for none.
fn link(key: &str, address: Option<String>) -> Result<String, ConfigError> {
    let address = address.unwrap_or_default();
    let is_link = Url::parse(&address).is_ok_and(|url| match url.scheme() {
        "https" | "http" => url.has_host(),
        scheme => scheme == "mailto",
    });
    if address.is_empty() || is_link {
        return Ok(address);
    }
    Err(error(key, format!("must be an https, http or mailto address, not {address:?}")))
}

impl BrandTable {
    /// The brand, checked.
    pub(crate) fn read(self) -> Result<Brand, ConfigError> {
        let name = self.name.unwrap_or_else(|| Brand::default().name);
        check_name(&name, 1..=NAME_CHARACTERS_MAX).map_err(|message| error("name", message))?;
        let logo = named(self.logo).map(|file| logo(&file)).transpose()?;
        let accent = match (&self.accent, &self.accent_dark) {
            (Some(light), dark) => {
                Some(Accent::new(light, dark.as_deref()).map_err(|(is_dark, message)| {
                    error(if is_dark { "accent_dark" } else { "accent" }, message)
                })?)
            }
            (None, Some(_)) => return Err(error("accent_dark", "goes with brand.accent")),
            (None, None) => None,
        };
        Ok(Brand {
            support_url: link("support_url", self.support_url)?,
            terms_url: link("terms_url", self.terms_url)?,
            ..Brand::new(name, logo, accent)
        })
    }
}

/// The brand, for a person.
pub(crate) fn describe(brand: &Brand) -> String {
    let accent = brand.accent.map(|accent| format!(" in {accent}")).unwrap_or_default();
    format!("{}{accent}", brand.name)
}
