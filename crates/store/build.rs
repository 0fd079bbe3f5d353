//! Embeds `migrations/`: the folder is the list, so that there is no second one to keep.
//!
//! No path of this machine goes into what is built: clones that share a target folder would meet each other's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// From the folder of this crate, in which cargo runs build scripts.
const FOLDER: &str = "../../migrations";

#[expect(clippy::disallowed_methods, reason = "cargo speaks to build scripts through the environment")]
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut files: Vec<PathBuf> =
        fs::read_dir(FOLDER)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    let mut list = String::from("&[");
    for file in files {
        let name =
            file.file_stem().and_then(|name| name.to_str()).ok_or_else(|| io::Error::other("a name"))?;
        let (number, _) = name.split_once('_').ok_or_else(|| io::Error::other("NNNN_area_what.sql"))?;
        let number: i64 = number.parse().map_err(io::Error::other)?;
        let text = fs::read_to_string(&file)?;
        writeln!(list, "Migration {{ number: {number}, name: {name:?}, text: {text:?} }},")
            .map_err(io::Error::other)?;
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR"))?;
    fs::write(Path::new(&out).join("migrations.rs"), list)
}
