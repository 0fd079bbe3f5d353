//! Where requests end, as strictly as RFC 9112 lets a server be.
//!
//! Two servers in a row that disagree about where a request ends can be made to take a part of one request for another
//! one. The HTTP library is lenient where a proxy in front may not be: it takes a line that ends without a carriage
//! return, and folds two equal `Content-Length` headers into one before anybody sees them. So the bytes are read along
//! here first, and where they can be understood in two ways, the end of the line is replaced by a byte that the library
//! refuses, with a 400. It must refuse it wherever it stands, because nobody follows what comes after it.

/// The beginning of a line is kept as far as this: enough for the headers that matter.
const LINE_KEPT: usize = 64;
/// The digits of the largest chunk.
const CHUNK_DIGITS_MAX: usize = 16;

/// Follows the requests of one connection.
#[derive(Debug)]
pub(crate) struct RequestFraming {
    part: Part,
    /// The beginning of the line under way, and whether its last byte was a carriage return.
    line: Vec<u8>,
    after_return: bool,
    framing: Framing,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The empty lines that may precede a request.
    Before,
    Head,
    Body(u64),
    ChunkSize,
    Chunk(u64),
    Trailers,
    /// The connection speaks no HTTP any more, or was refused.
    Over,
}

/// What the head says about the body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Framing {
    #[default]
    None,
    Length(u64),
    Chunked,
}

/// The bytes can be understood in two ways.
#[derive(Debug, PartialEq, Eq)]
struct Ambiguous;

impl RequestFraming {
    pub(crate) fn new() -> Self {
        Self { part: Part::Before, line: Vec::new(), after_return: false, framing: Framing::None }
    }

    /// The connection was upgraded to another protocol.
    pub(crate) fn end(&mut self) {
        self.part = Part::Over;
    }

    /// Reads along. The line end after which the requests would be ambiguous is replaced by a byte that no head may hold.
    pub(crate) fn follow(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() && self.part != Part::Over {
            let rest = &bytes[at..];
            let (taken, left) = match self.part {
                Part::Body(left) | Part::Chunk(left) => {
                    let taken = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    (taken, left - taken as u64)
                }
                _ => {
                    let Some(end) = memchr::memchr(b'\n', rest) else { return self.keep(rest) };
                    self.keep(&rest[..end]);
                    // Behind the size of a chunk the library itself refuses a line end without a carriage return, but would
                    // take the other byte for a part of an extension, and read on.
                    let is_spoiled = self.part != Part::ChunkSize || self.after_return;
                    if self.end_line().is_err() {
                        if is_spoiled {
                            bytes[at + end] = 0;
                        }
                        self.part = Part::Over;
                        return;
                    }
                    at += end + 1;
                    continue;
                }
            };
            at += taken;
            self.part = match self.part {
                Part::Body(_) if left == 0 => Part::Before,
                Part::Body(_) => Part::Body(left),
                _ if left == 0 => Part::ChunkSize,
                _ => Part::Chunk(left),
            };
        }
    }

    /// Keeps the beginning of the line under way.
    fn keep(&mut self, bytes: &[u8]) {
        let room = LINE_KEPT.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(last) = bytes.last() {
            self.after_return = *last == b'\r';
        }
    }

    /// Reads a line of which everything was kept that matters.
    fn end_line(&mut self) -> Result<(), Ambiguous> {
        if !self.after_return {
            return Err(Ambiguous);
        }
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        self.after_return = false;
        self.part = match (self.part, text.is_empty()) {
            (Part::Before | Part::Trailers, true) => Part::Before,
            // The request line.
            (Part::Before, false) => {
                self.framing = Framing::None;
                Part::Head
            }
            (Part::Head, true) => match self.framing {
                Framing::None | Framing::Length(0) => Part::Before,
                Framing::Length(length) => Part::Body(length),
                Framing::Chunked => Part::ChunkSize,
            },
            (Part::Head, false) => {
                if let Some(framing) = header(text)? {
                    if self.framing != Framing::None {
                        return Err(Ambiguous);
                    }
                    self.framing = framing;
                }
                Part::Head
            }
            (Part::ChunkSize, _) => match chunk_size(text)? {
                0 => Part::Trailers,
                // The chunk, and the line end behind it.
                size => Part::Chunk(size.saturating_add(2)),
            },
            (part, _) => part,
        };
        // The next line begins in the same memory.
        self.line = line;
        self.line.clear();
        Ok(())
    }
}

/// What a header says about the body, if it does.
fn header(line: &[u8]) -> Result<Option<Framing>, Ambiguous> {
    let Some(colon) = memchr::memchr(b':', line) else { return Ok(None) };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.eq_ignore_ascii_case(b"transfer-encoding") {
        // Whatever else it says, somebody in front may read it differently.
        let is_chunked = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return is_chunked.then_some(Some(Framing::Chunked)).ok_or(Ambiguous);
    }
    if !name.eq_ignore_ascii_case(b"content-length") {
        return Ok(None);
    }
    let digits = value.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let length = str::from_utf8(digits).ok().filter(|_| is_number && line.len() < LINE_KEPT);
    length.and_then(|length| length.parse().ok()).map(|length| Some(Framing::Length(length))).ok_or(Ambiguous)
}

/// The size of a chunk, without what may follow it. Leading zeros must not push its digits out of what is kept of a line.
fn chunk_size(line: &[u8]) -> Result<u64, Ambiguous> {
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let digits = str::from_utf8(&line[..end]).ok().filter(|digits| digits.len() <= CHUNK_DIGITS_MAX);
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(Ambiguous)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the text as a whole and byte by byte; both must spoil the same byte.
    fn spoiled_at(text: &str) -> Option<usize> {
        let find = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0);
        let mut whole = text.as_bytes().to_vec();
        RequestFraming::new().follow(&mut whole);
        let mut framing = RequestFraming::new();
        let mut single = text.as_bytes().to_vec();
        single.chunks_mut(1).for_each(|byte| framing.follow(byte));
        assert_eq!(whole, single, "{text:?}");
        find(&whole)
    }

    #[test]
    fn requests_that_can_be_understood_in_one_way_pass() {
        let head = "POST /a HTTP/1.1\r\nhost: a\r\n";
        for text in [
            format!("{head}\r\n{head}\r\n"),
            format!("\r\n\r\n{head}content-length: 3\r\n\r\na\nb{head}\r\n"),
            format!("{head}Transfer-Encoding: chunked\r\n\r\n3;x=y\r\na\nb\r\n0\r\n\r\n{head}\r\n"),
            format!("{head}content-length: 0\r\n\r\n{head}\r\n"),
            format!("{head}x: {}\r\n\r\n", "y".repeat(10_000)),
        ] {
            assert_eq!(spoiled_at(&text), None, "{text:?}");
        }
    }

    #[test]
    fn what_can_be_understood_in_two_ways_is_spoiled() {
        let head = "POST /a HTTP/1.1\r\nhost: a\r\n";
        let chunked = "transfer-encoding: chunked\r\n";
        for bad in [
            "\n".to_owned(),
            "GET / HTTP/1.1\n".to_owned(),
            format!("{head}x: y\n"),
            format!("{head}\n"),
            format!("{head}content-length: 1\r\ncontent-length: 1\r\n"),
            format!("{head}content-length: 1\r\nContent-Length: 1\r\n"),
            format!("{head}{chunked}{chunked}"),
            format!("{head}{chunked}content-length: 1\r\n"),
            format!("{head}content-length: +1\r\n"),
            format!("{head}content-length:{}1\r\n", " ".repeat(100)),
            format!("{head}transfer-encoding: gzip, chunked\r\n"),
            format!("{head}transfer-encoding: identity\r\n"),
            format!("{head}transfer-encoding:\r\n"),
            format!("{head}transfer-encoding:{}chunked\r\n", " ".repeat(100)),
            format!("{head}{chunked}\r\n3\r\na\nb\r\n0\r\nx: y\n"),
            format!("{head}content-length: 3\r\n\r\na\nbGET / HTTP/1.1\n"),
        ] {
            assert_eq!(spoiled_at(&bad), Some(bad.len() - 1), "{bad:?}");
        }
    }

    #[test]
    fn a_line_end_behind_the_size_of_a_chunk_is_left_to_the_library() {
        let head = "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        for bad in ["3\n", "3;x\n", "3;x\nabc\r\n"] {
            assert_eq!(spoiled_at(&format!("{head}{bad}")), None, "{bad:?}");
        }
        for bad in ["x\r\n".to_owned(), format!("{}\r\n", "f".repeat(17)), format!("{}3\r\n", "0".repeat(70))]
        {
            let text = format!("{head}{bad}");
            assert_eq!(spoiled_at(&text), Some(text.len() - 1), "{bad:?}");
        }
    }

    #[test]
    fn another_protocol_is_not_looked_at() {
        let mut framing = RequestFraming::new();
        framing.end();
        let mut bytes = *b"\n\n";
        framing.follow(&mut bytes);
        assert_eq!(&bytes, b"\n\n");
    }
}
