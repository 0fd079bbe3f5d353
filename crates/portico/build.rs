//! Takes the files that `npm run build` left in `console/dist` into the binary. When it never ran there are none, and that is
//! all right: cargo never calls npm.

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

/// The files of the console, copied to where the compiler reads them: the console may be built anew while it does.
struct Files {
    from: PathBuf,
    to: PathBuf,
}

impl Files {
    /// An expression for the bytes of the file.
    fn bytes(&self, path: &Path) -> io::Result<String> {
        let copy = self.to.join(path.strip_prefix(&self.from).map_err(io::Error::other)?);
        fs::create_dir_all(copy.parent().unwrap_or(&self.to))?;
        fs::copy(path, &copy)?;
        // As a literal of Rust, with what has to be escaped in one.
        Ok(format!("include_bytes!({:?})", copy.display().to_string()))
    }

    /// The same for the file in an encoding, if the build made one.
    fn encoded(&self, path: &Path, extension: &str) -> io::Result<String> {
        let path = PathBuf::from(format!("{}.{extension}", path.display()));
        Ok(if path.is_file() { format!("Some({})", self.bytes(&path)?) } else { "None".to_owned() })
    }

    /// An expression for the file.
    fn entry(&self, path: &Path) -> io::Result<String> {
        let name = path.strip_prefix(&self.from).map_err(io::Error::other)?;
        let (brotli, gzip) = (self.encoded(path, "br")?, self.encoded(path, "gz")?);
        let (path, bytes) = (format!("/{}", name.display()), self.bytes(path)?);
        Ok(format!("ConsoleFile {{ path: {path:?}, bytes: {bytes}, brotli: {brotli}, gzip: {gzip} }},\n"))
    }
}

fn main() -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo tells a build script where it works in no other way"
    )]
    let variable = |name: &str| env::var(name).map(PathBuf::from).map_err(io::Error::other);
    let out = variable("OUT_DIR")?;
    let files =
        Files { from: variable("CARGO_MANIFEST_DIR")?.join("../../console/dist"), to: out.join("console") };
    // What an earlier run left goes first: its files may be links that another folder of built things shares.
    for left in [out.join("console"), out.join("console.rs")] {
        let removed = if left.is_dir() { fs::remove_dir_all(&left) } else { fs::remove_file(&left) };
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    let mut paths = Vec::new();
    // A folder that is not there would count as changed each time.
    let watched = if files.from.is_dir() { files.from.as_path() } else { Path::new("build.rs") };
    println!("cargo::rerun-if-changed={}", watched.display());
    if files.from.is_dir() {
        collect(&files.from, &mut paths)?;
        paths.sort_unstable();
    }
    let ends = |path: &Path, end: &str| path.extension().is_some_and(|extension| extension == end);
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut table = "[".to_owned();
    for path in paths.iter().filter(|path| !ends(path, "br") && !ends(path, "gz") && !is_hidden(path)) {
        table.write_str(&files.entry(path)?).map_err(io::Error::other)?;
    }
    table.push(']');
    fs::write(out.join("console.rs"), table)
}
