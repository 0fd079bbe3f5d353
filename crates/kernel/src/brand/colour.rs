//! Colours, and whether one can be read on another.

use std::fmt;
use std::str::FromStr;

/// The contrast that text needs (WCAG 2.2, 1.4.3).
const NEEDED: f64 = 4.5;
const WHITE: Colour = Colour([255, 255, 255]);
const BLACK: Colour = Colour([0, 0, 0]);

/// A colour of sRGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Colour([u8; 3]);

impl FromStr for Colour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text
            .strip_prefix('#')
            .filter(|digits| digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let part = |at| digits.and_then(|digits| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        match (part(0), part(2), part(4)) {
            (Some(red), Some(green), Some(blue)) => Ok(Self([red, green, blue])),
            _ => Err(format!("must be a colour such as #3a4fd0, not {text:?}")),
        }
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

impl Colour {
    /// As much of the other colour as there are hundredths in `share`, and the rest of this one.
    fn mixed(self, other: Self, share: u16) -> Self {
        let mut mixed = self.0;
        for (own, other) in mixed.iter_mut().zip(other.0) {
            let sum = u16::from(*own) * (100 - share) + u16::from(other) * share;
            *own = u8::try_from(sum / 100).unwrap_or(u8::MAX);
        }
        Self(mixed)
    }

    /// How bright it is, from 0 to 1, as WCAG defines it.
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(self, other: Self) -> f64 {
        let (own, other) = (self.luminance(), other.luminance());
        (own.max(other) + 0.05) / (own.min(other) + 0.05)
    }
}

/// What the accent is read on in one of the two schemes. What is written on the accent is brighter than these in the
/// light one and darker in the dark one, so it can be read where these can.
struct Scheme {
    name: &'static str,
    /// The surface of the pages that is hardest to read the accent on: where a mouse hovers.
    surface: Colour,
    /// What accented areas are a tint of, and how much of the accent is in them.
    paper: Colour,
    share: u16,
    /// Where a colour goes that is to be read better.
    better: Colour,
    too: &'static str,
}

const LIGHT: Scheme = Scheme {
    name: "light",
    surface: Colour([0xf1, 0xf3, 0xf6]),
    paper: WHITE,
    share: 9,
    better: BLACK,
    too: "bright",
};
const DARK: Scheme = Scheme {
    name: "dark",
    surface: Colour([0x1d, 0x23, 0x2c]),
    paper: Colour([0x14, 0x18, 0x1f]),
    share: 16,
    better: WHITE,
    too: "dark",
};

impl Scheme {
    fn ground(&self, accent: Colour) -> Colour {
        self.paper.mixed(accent, self.share)
    }

    /// The surface that the accent is hardest to read on, and its contrast there.
    fn worst(&self, accent: Colour) -> (Colour, f64) {
        let on = |surface: Colour| (surface, accent.contrast(surface));
        let (page, tint) = (on(self.surface), on(self.ground(accent)));
        if page.1 <= tint.1 { page } else { tint }
    }

    /// The colour itself, or what is nearest to it and can be read.
    fn readable(&self, accent: Colour) -> Colour {
        let mut nearer = (0..=100).map(|share| accent.mixed(self.better, share));
        nearer.find(|colour| self.worst(*colour).1 >= NEEDED).unwrap_or(self.better)
    }

    fn check(&self, accent: Colour) -> Result<Colour, String> {
        let (surface, contrast) = self.worst(accent);
        if contrast >= NEEDED {
            return Ok(accent);
        }
        // Rounded down, so that what is too little does not read as enough.
        let contrast = (contrast * 10.0).floor() / 10.0;
        Err(format!(
            "{accent} is too {} to be read in the {} scheme: its contrast with {surface} is {contrast}:1, and {NEEDED}:1 is \
             needed; {} would do",
            self.too,
            self.name,
            self.readable(accent)
        ))
    }
}

/// The colour of links and of what is to be done, in the light and the dark scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accent {
    light: Colour,
    dark: Colour,
}

impl Accent {
    /// The colours, checked. Without one for the dark scheme it is the light one's, brightened until it can be read. The error
    /// tells whether it is about the dark one, and continues a sentence that begins with its name.
    pub fn new(light: &str, dark: Option<&str>) -> Result<Self, (bool, String)> {
        let light = light
            .parse::<Colour>()
            .and_then(|light| LIGHT.check(light))
            .map_err(|message| (false, message))?;
        let dark = match dark {
            Some(dark) => {
                dark.parse::<Colour>().and_then(|dark| DARK.check(dark)).map_err(|message| (true, message))?
            }
            None => DARK.readable(light),
        };
        Ok(Self { light, dark })
    }

    /// A style sheet that puts it in the place of ours.
    pub(super) fn style(self) -> String {
        // More specific than what it overrules, whichever comes first.
        let rule = |scheme: &Scheme, accent: Colour| {
            format!("html:root{{--accent:{accent};--accent-ground:{}}}", scheme.ground(accent))
        };
        let (light, dark) = (rule(&LIGHT, self.light), rule(&DARK, self.dark));
        format!("{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n")
    }

    /// The colours, the light scheme's first.
    pub(super) fn colours(self) -> [String; 2] {
        [self.light.to_string(), self.dark.to_string()]
    }
}

impl fmt::Display for Accent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {} in the dark", self.light, self.dark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contrast_is_that_of_the_specification() {
        assert!((WHITE.contrast(BLACK) - 21.0).abs() < 1e-9);
        let grey: Colour = "#767676".parse().unwrap();
        assert!((grey.contrast(WHITE) - 4.54).abs() < 0.01);
    }

    #[test]
    fn an_accent_can_be_read_or_is_refused() {
        let accent = Accent::new("#0b6e4f", None).unwrap();
        assert_eq!(accent.light.to_string(), "#0b6e4f");
        assert!(DARK.worst(accent.dark).1 >= NEEDED);
        for light in ["#000000", "#3a4fd0", "#b3261e"] {
            let accent = Accent::new(light, None).unwrap();
            assert!(DARK.worst(accent.dark).1 >= NEEDED, "{light}");
        }
        let refused = Accent::new("#ffcc00", None).unwrap_err().1;
        assert!(
            refused.starts_with("#ffcc00 is too bright to be read in the light scheme: its contrast with #"),
            "{refused}"
        );
        assert!(refused.contains(" is 1.3:1, and 4.5:1 is needed; #"), "{refused}");
        let better = refused.split("; ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        Accent::new(better, None).unwrap();
        let refused = Accent::new("#0b6e4f", Some("#0b6e4f")).unwrap_err().1;
        assert!(refused.contains("too dark to be read in the dark scheme"), "{refused}");
        for bad in ["", "blue", "#fff", "#12345g", "#+1+1+1", "3a4fd0", "#€€"] {
            assert!(Accent::new(bad, None).unwrap_err().1.starts_with("must be a colour"), "{bad}");
        }
    }

    #[test]
    fn the_surfaces_are_those_of_the_pages() {
        let tokens = include_str!("../../../../console/src/styles/tokens.css");
        let (light, dark) = tokens.split_once("prefers-color-scheme").unwrap();
        for (scheme, text) in [(LIGHT, light), (DARK, dark)] {
            assert!(text.contains(&format!("--hover: {};", scheme.surface)), "{}", scheme.name);
            assert!(text.contains(&format!("--paper: {};", scheme.paper)), "{}", scheme.name);
        }
        // Our own accent keeps to what we ask of others.
        Accent::new("#3a4fd0", Some("#9aa9ff")).unwrap();
    }
}
