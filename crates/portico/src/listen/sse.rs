//! Server-sent events, taken apart as they come (WHATWG HTML, "Server-sent events").

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::time::Duration;

/// What a block may take: far more than any event has, and little enough for a server that never ends a line.
const BLOCK_BYTES_MAX: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What stands between two empty lines. A block without data is no event, and still says where the stream is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SseBlock {
    /// Where to go on after a cut; empty takes back what was said before.
    pub(super) id: Option<String>,
    /// The kind of event; empty where nothing was said.
    pub(super) event: String,
    /// The lines of the data as they came, with a line feed between them.
    pub(super) data: Option<Vec<u8>>,
    /// How long to wait after a cut.
    pub(super) retry: Option<Duration>,
}

/// A block that does not end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event is longer than any should be")
    }
}

/// Puts blocks together from pieces that may end anywhere.
#[derive(Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    block: SseBlock,
    /// Bytes of the block's lines so far.
    bytes: usize,
    /// The last piece ended in a carriage return: a line feed that comes next belongs to it.
    after_return: bool,
    /// The first line, which may begin with a mark, is over.
    begun: bool,
    whole: VecDeque<SseBlock>,
}

impl SseParser {
    /// Takes the next piece of the stream.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        let mut rest = piece;
        if !rest.is_empty() && mem::take(&mut self.after_return) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.add(&rest[..at])?;
            let is_return = rest[at] == b'\r';
            rest = &rest[at + 1..];
            if is_return {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            self.end_line();
        }
        self.add(rest)
    }

    /// The next whole block. What is not whole when the stream ends is none.
    pub(super) fn next(&mut self) -> Option<SseBlock> {
        self.whole.pop_front()
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.bytes += bytes.len();
        if self.bytes > BLOCK_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let line = mem::take(&mut self.line);
        let is_first = !mem::replace(&mut self.begun, true);
        let line = if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
        if line.is_empty() {
            self.bytes = 0;
            let block = mem::take(&mut self.block);
            if block != SseBlock::default() {
                self.whole.push_back(block);
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = colon.map_or((line, &b""[..]), |at| (&line[..at], &line[at + 1..]));
        self.field(name, value.strip_prefix(b" ").unwrap_or(value));
    }

    /// A comment is a field without a name, and like every other that is not known it is passed over.
    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => match &mut self.block.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.block.data = Some(value.to_vec()),
            },
            b"event" => self.block.event = text(),
            b"id" if !value.contains(&0) => self.block.id = Some(text()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                self.block.retry = text().parse().ok().map(Duration::from_millis).or(self.block.retry);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pieces: &[&[u8]]) -> Vec<SseBlock> {
        let mut parser = SseParser::default();
        for piece in pieces {
            parser.push(piece).unwrap();
        }
        std::iter::from_fn(|| parser.next()).collect()
    }

    fn data(text: &str) -> SseBlock {
        SseBlock { data: Some(text.into()), ..SseBlock::default() }
    }

    #[test]
    fn a_stream_of_ours_is_read() {
        let stream = "retry: 2000\nid: 1-7\n\n: hello\n\nid: 1-8\nevent: token.created\ndata: {\"id\":\"evt_1\"}\n\n\
            event: error\ndata: {}\n\n";
        let first =
            SseBlock { id: Some("1-7".into()), retry: Some(Duration::from_secs(2)), ..SseBlock::default() };
        let second =
            SseBlock { id: Some("1-8".into()), event: "token.created".into(), ..data("{\"id\":\"evt_1\"}") };
        let third = SseBlock { event: "error".into(), ..data("{}") };
        assert_eq!(blocks(&[stream.as_bytes()]), [first, second, third]);
    }

    /// Wherever the pieces end and however lines do, the blocks are the same.
    #[test]
    fn pieces_may_end_anywhere_and_lines_in_three_ways() {
        let stream = "\u{feff}id: 1\ndata: über\ndata: two\n\n:\n\n\ndata\n\nevent: x\nid: 2\nretry: 5\n\nid\n\ndata: half\n";
        let expected = [
            SseBlock { id: Some("1".into()), ..data("über\ntwo") },
            data(""),
            SseBlock {
                id: Some("2".into()),
                event: "x".into(),
                retry: Some(Duration::from_millis(5)),
                ..SseBlock::default()
            },
            SseBlock { id: Some(String::new()), ..SseBlock::default() },
        ];
        for end in ["\n", "\r\n", "\r"] {
            let stream = stream.replace('\n', end);
            let bytes = stream.as_bytes();
            assert_eq!(blocks(&[bytes]), expected, "{end:?}");
            for at in 0..bytes.len() {
                assert_eq!(blocks(&[&bytes[..at], b"", &bytes[at..]]), expected, "{end:?} at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(blocks(&single), expected, "{end:?} byte by byte");
        }
    }

    #[test]
    fn ways_of_ending_a_line_may_be_mixed() {
        assert_eq!(
            blocks(&[b"data: a\r", b"\n\r\ndata: b\r\rdata: c\n\r\n"]),
            [data("a"), data("b"), data("c")]
        );
        assert_eq!(blocks(&[b"data: a\r", b"data: b\n\n"]), [data("a\nb")]);
    }

    #[test]
    fn values_are_kept_as_they_came() {
        for (line, value) in [
            ("data:x", "x"),
            ("data: x", "x"),
            ("data:  x ", " x "),
            ("data:", ""),
            ("data", ""),
            ("data: a: b", "a: b"),
            ("data:\u{feff}x", "\u{feff}x"),
        ] {
            assert_eq!(blocks(&[line.as_bytes(), b"\n\n"]), [data(value)], "{line:?}");
        }
        let odd = blocks(&[b"data: \xff\xfe\n\n"]);
        assert_eq!(odd[0].data.as_deref(), Some(&b"\xff\xfe"[..]), "what is signed must be what came");
    }

    #[test]
    fn what_means_nothing_is_passed_over() {
        for line in
            ["datum: x", " data: x", "Data: x", "id: a\0b", "retry: -1", "retry: 1s", "retry:", ": id: x"]
        {
            assert_eq!(blocks(&[line.as_bytes(), b"\n\n"]), [], "{line:?}");
        }
        let huge = "retry: 5\nretry: 99999999999999999999999\n\n";
        assert_eq!(blocks(&[huge.as_bytes()])[0].retry, Some(Duration::from_millis(5)));
        assert_eq!(blocks(&[b"data: x\n"]), [], "a block ends with an empty line");
    }

    #[test]
    fn a_block_that_never_ends_is_given_up() {
        let piece = vec![b'x'; BLOCK_BYTES_MAX / 4];
        let mut parser = SseParser::default();
        assert_eq!((0..5).map(|_| parser.push(&piece)).find(Result::is_err), Some(Err(TooLong)));
        let mut parser = SseParser::default();
        let lines = b"data: x\n".repeat(BLOCK_BYTES_MAX / 4);
        assert_eq!(parser.push(&lines), Err(TooLong), "many lines are long too");
        let mut parser = SseParser::default();
        for _ in 0..8 {
            parser.push(&piece).unwrap();
            parser.push(b"\n\n").unwrap();
        }
    }
}
