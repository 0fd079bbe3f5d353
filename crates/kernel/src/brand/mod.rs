//! What an installation is called and how it looks: on pages, in mails, in the console.

mod colour;

use std::borrow::Cow;

pub use colour::Accent;

/// The most that a logo may weigh, in bytes.
pub const LOGO_BYTES_MAX: usize = 64 * 1024;

/// Our own colours, for the mark (`console/src/styles/tokens.css` has them for pages).
const OWN_COLOURS: [&str; 2] = ["#3a4fd0", "#9aa9ff"];

/// A picture that stands for the installation.
#[derive(Debug, Clone)]
pub struct Logo {
    /// What kind of picture it is.
    pub content_type: &'static str,
    /// The picture.
    pub bytes: Cow<'static, [u8]>,
}

/// What an installation is called and how it looks.
#[derive(Debug, Clone)]
pub struct Brand {
    /// Its name.
    pub name: String,
    /// Its logo.
    pub logo: Logo,
    /// Its colour, where it has one of its own.
    pub accent: Option<Accent>,
    /// Where people find help; empty for nowhere.
    pub support_url: String,
    /// Where its terms stand; empty for nowhere.
    pub terms_url: String,
}

impl Logo {
    /// The policy that a logo is sent with: opened by itself, a picture runs nothing and asks nobody for anything.
    pub const POLICY: &'static str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

    /// The picture in these bytes, if it is one that every browser shows.
    pub fn new(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() > LOGO_BYTES_MAX {
            return Err(format!("is {} bytes, and may have {LOGO_BYTES_MAX}", bytes.len()));
        }
        let text = str::from_utf8(&bytes).unwrap_or_default().trim_start_matches('\u{feff}').trim_start();
        let is_svg = ["<svg", "<?xml", "<!--", "<!DOCTYPE svg"].iter().any(|start| text.starts_with(start))
            && text.contains("<svg");
        let content_type = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            "image/png"
        } else if is_svg {
            "image/svg+xml"
        } else {
            return Err("is neither SVG nor PNG".to_owned());
        };
        Ok(Self { content_type, bytes: Cow::Owned(bytes) })
    }

    /// Our own mark, in these colours.
    fn mark([light, dark]: [&str; 2]) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><style>path{{fill:{light}}}\
             @media (prefers-color-scheme:dark){{path{{fill:{dark}}}}}</style>\
             <path d=\"M4 28V14a12 12 0 0 1 24 0v14h-5V14a7 7 0 0 0-14 0v14z\"/></svg>"
        );
        Self { content_type: "image/svg+xml", bytes: Cow::Owned(text.into_bytes()) }
    }
}

impl Default for Brand {
    fn default() -> Self {
        Self::new("Portico".to_owned(), None, None)
    }
}

impl Brand {
    /// A brand without links. Without a logo it has our mark, in its own colour.
    pub fn new(name: String, logo: Option<Logo>, accent: Option<Accent>) -> Self {
        let logo = logo.unwrap_or_else(|| match accent.map(Accent::colours) {
            Some([light, dark]) => Logo::mark([&light, &dark]),
            None => Logo::mark(OWN_COLOURS),
        });
        Self { name, logo, accent, support_url: String::new(), terms_url: String::new() }
    }

    /// A style sheet with its colour; empty where that is ours.
    pub fn style(&self) -> String {
        self.accent.map_or_else(String::new, Accent::style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logo_is_a_picture_of_a_size() {
        let kind = |bytes: &[u8]| Logo::new(bytes.to_vec()).map(|logo| logo.content_type);
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n...").unwrap(), "image/png");
        assert_eq!(kind(b"\xef\xbb\xbf <?xml version='1.0'?>\n<svg/>").unwrap(), "image/svg+xml");
        for other in [b"GIF89a".as_slice(), b"<html><svg/></html>", b"<?xml?><html/>", b"\xff\xfe", b""] {
            assert_eq!(kind(other).unwrap_err(), "is neither SVG nor PNG");
        }
        let large = [b"<svg>".to_vec(), vec![b' '; LOGO_BYTES_MAX]].concat();
        assert_eq!(kind(&large).unwrap_err(), "is 65541 bytes, and may have 65536");
    }

    #[test]
    fn the_mark_takes_the_accent() {
        let brand = Brand::new("Acme".to_owned(), None, Some(Accent::new("#0b6e4f", None).unwrap()));
        assert!(str::from_utf8(&brand.logo.bytes).unwrap().contains("path{fill:#0b6e4f}"));
        assert!(brand.style().starts_with("html:root{--accent:#0b6e4f;--accent-ground:#"));
        assert_eq!(Brand::default().style(), "");
        let tokens = include_str!("../../../../console/src/styles/tokens.css");
        assert!(OWN_COLOURS.iter().all(|colour| tokens.contains(&format!("--accent: {colour};"))));
    }
}
