//! Areas that are not built yet. A token may hold their scopes already, so that it need not be made anew for them.

use std::sync::Arc;

use portico_engine::Area;

fn area(name: &'static str, scopes: &[(&'static str, &'static str)]) -> Area {
    let area = Area::builder(name, Arc::new(()));
    scopes.iter().fold(area, |area, (name, description)| area.scope(name, description)).build()
}

pub(crate) fn radar() -> Area {
    area("radar", &[("radar:read", "Read radar digests and items.")])
}

pub(crate) fn trail() -> Area {
    area(
        "trail",
        &[
            ("trail:read", "Read trail recordings and error groups."),
            ("trail:write", "Upload and delete trail recordings."),
        ],
    )
}

pub(crate) fn extensions() -> Area {
    area("extensions", &[("extensions:read", "Read the catalogue of extensions.")])
}

pub(crate) fn decisions() -> Area {
    area(
        "decisions",
        &[
            ("decisions:read", "Read decisions and corrections."),
            ("decisions:write", "Write decisions and corrections."),
        ],
    )
}

pub(crate) fn narration() -> Area {
    area("narration", &[("narration:write", "Turn text into audio.")])
}
