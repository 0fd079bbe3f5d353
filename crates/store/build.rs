//! Embeds `migrations/`: the folder is the list, so that there is no second one to keep.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "cargo speaks to build scripts through the environment")]
fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    let mut list = String::from("&[");
    for file in files {
        let path = file.to_str().ok_or_else(|| io::Error::other("a path that is not UTF-8"))?;
        let name =
            file.file_stem().and_then(|name| name.to_str()).ok_or_else(|| io::Error::other("a name"))?;
        let (number, _) = name.split_once('_').ok_or_else(|| io::Error::other("NNNN_area_what.sql"))?;
        let number: i64 = number.parse().map_err(io::Error::other)?;
        writeln!(list, "Migration {{ number: {number}, name: {name:?}, text: include_str!({path:?}) }},")
            .map_err(io::Error::other)?;
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR"))?;
    fs::write(Path::new(&out).join("migrations.rs"), list)
}
