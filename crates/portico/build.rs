//! Lists the files that `npm run build` left in `console/dist`, so that they are part of the binary. When it never ran there
//! are none, and that is all right: cargo never calls npm.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Every file below `folder`.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

/// The expression that is the file's bytes.
fn include(path: &Path) -> String {
    format!("include_bytes!({:?})", path.display().to_string())
}

/// The file in that encoding, if the build made one.
fn encoded(path: &Path, extension: &str) -> String {
    let path = PathBuf::from(format!("{}.{extension}", path.display()));
    if path.is_file() { format!("Some({})", include(&path)) } else { "None".to_owned() }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script where things are through the environment"
)]
fn main() -> io::Result<()> {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../../console/dist");
    let mut files = Vec::new();
    if folder.is_dir() {
        let folder = folder.canonicalize()?;
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(&folder, &mut files)?;
        files.sort_unstable();
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    let mut table = "[".to_owned();
    let is_encoding = |path: &Path| path.extension().is_some_and(|end| end == "br" || end == "gz");
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    for path in files.iter().filter(|path| !is_encoding(path) && !is_hidden(path)) {
        let name = path.strip_prefix(folder.canonicalize()?).map_err(io::Error::other)?;
        writeln!(
            table,
            "ConsoleFile {{ path: {:?}, bytes: {}, brotli: {}, gzip: {} }},",
            format!("/{}", name.display()),
            include(path),
            encoded(path, "br"),
            encoded(path, "gz"),
        )
        .map_err(io::Error::other)?;
    }
    table.push(']');
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("console.rs"), table)
}
