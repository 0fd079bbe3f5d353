//! A body in chunks.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::body::Decoded;
use crate::{HEADERS_MAX, TRAILER_BYTES_MAX};

/// The line with the size of a chunk, its extensions included.
const SIZE_LINE_MAX: usize = 1 << 10;
/// The digits of the largest chunk.
const SIZE_DIGITS_MAX: usize = 16;

/// Takes chunks apart.
#[derive(Debug)]
pub(super) struct Chunked {
    part: Part,
    /// How far the trailers were looked through, and where the line under way begins.
    scanned: usize,
    line: usize,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { part: Part::Size, scanned: 0, line: 0 }
    }

    /// Takes the next piece out of what was read.
    pub(super) fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, &'static str> {
        loop {
            self.part = match self.part {
                Part::Size => {
                    let Some(end) = size_line_end(buf)? else { return Ok(Decoded::NeedsMore) };
                    let line = buf.split_to(end + 1);
                    match size(&line[..end - 1])? {
                        0 => Part::Trailers,
                        size => Part::Data(size),
                    }
                }
                Part::Data(left) => {
                    if buf.is_empty() {
                        return Ok(Decoded::NeedsMore);
                    }
                    let taken = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
                    let left = left - taken as u64;
                    self.part = if left == 0 { Part::DataEnd } else { Part::Data(left) };
                    return Ok(Decoded::Data(buf.split_to(taken).freeze()));
                }
                Part::DataEnd => {
                    let known = buf.len().min(2);
                    if buf[..known] != b"\r\n"[..known] {
                        return Err("a chunk is longer than its size");
                    }
                    if known < 2 {
                        return Ok(Decoded::NeedsMore);
                    }
                    let _ = buf.split_to(2);
                    Part::Size
                }
                Part::Trailers => {
                    let Some(end) = self.trailers_end(buf)? else { return Ok(Decoded::NeedsMore) };
                    return Ok(Decoded::End(trailers(&buf.split_to(end).freeze())?));
                }
            };
        }
    }

    /// Where the trailers end, behind their empty line.
    fn trailers_end(&mut self, buf: &[u8]) -> Result<Option<usize>, &'static str> {
        while let Some(at) = memchr::memchr(b'\n', &buf[self.scanned..]) {
            let line_end = self.scanned + at;
            if line_end == 0 || buf[line_end - 1] != b'\r' {
                return Err("a line of the trailers ends without a carriage return");
            }
            let is_empty = line_end - 1 == self.line;
            (self.scanned, self.line) = (line_end + 1, line_end + 1);
            if is_empty {
                return Ok(Some(self.scanned));
            }
        }
        self.scanned = buf.len();
        if buf.len() > TRAILER_BYTES_MAX { Err("the trailers are too long") } else { Ok(None) }
    }
}

/// Where the line with the size ends.
fn size_line_end(buf: &[u8]) -> Result<Option<usize>, &'static str> {
    let known = &buf[..buf.len().min(SIZE_LINE_MAX)];
    match memchr::memchr(b'\n', known) {
        Some(end) if end == 0 || buf[end - 1] != b'\r' => {
            Err("the size of a chunk ends without a carriage return")
        }
        Some(end) => Ok(Some(end)),
        // What is no size is refused before its line has ended.
        None if known.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) => {
            Err("the size of a chunk is none")
        }
        None if known.len() == SIZE_LINE_MAX => Err("the size of a chunk is too long"),
        None => Ok(None),
    }
}

/// The size, without the extensions that may follow it.
fn size(line: &[u8]) -> Result<u64, &'static str> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    // Some servers put blanks behind it. A carriage return is none.
    let blanks = line[end..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let extensions = &line[end + blanks..];
    let is_control = |byte: &u8| *byte < b' ' && *byte != b'\t';
    if extensions.first().is_some_and(|byte| *byte != b';') || extensions.iter().any(is_control) {
        return Err("the size of a chunk is none");
    }
    let digits =
        str::from_utf8(&line[..end]).ok().filter(|digits| (1..=SIZE_DIGITS_MAX).contains(&digits.len()));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or("the size of a chunk is none")
}

fn trailers(bytes: &Bytes) -> Result<Option<HeaderMap>, &'static str> {
    if bytes.len() == 2 {
        return Ok(None);
    }
    let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(bytes, &mut room) else {
        return Err("the trailers cannot be read");
    };
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for header in parsed {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(header.value));
        let (Ok(name), Ok(value)) = (name, value) else { return Err("the trailers cannot be read") };
        headers.append(name, value);
    }
    Ok(Some(headers))
}
