//! The head of an answer.

use std::mem::MaybeUninit;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::{HEAD_BYTES_MAX, HEADERS_MAX};

/// What every head begins with.
const BEGINNING: &[u8] = b"HTTP/1.";
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// What was asked, as far as it matters for where the answer ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// A HEAD request: its answer has no body.
    pub(crate) is_head: bool,
    /// The connection is to become another protocol.
    pub(crate) is_upgrade: bool,
}

/// The head of an answer that can be understood in one way.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
    /// May the connection be used again afterwards?
    pub(crate) keeps_alive: bool,
    /// For how long the target says that it keeps the connection.
    pub(crate) keeps_for: Option<Duration>,
}

/// Where the body of the answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    Empty,
    Length(u64),
    Chunked,
    UntilClose,
    /// The connection speaks another protocol now.
    Switched,
}

/// Reads a head as it comes, and skips those of interim answers.
#[derive(Debug, Default)]
pub(crate) struct HeadReader {
    /// How far line ends were looked for.
    scanned: usize,
    /// Where the line under way begins.
    line: usize,
    /// The bytes of interim answers.
    skipped: usize,
}

impl HeadReader {
    /// Takes the head out of what was read, once it is there. The error says what is wrong with it.
    pub(crate) fn read(&mut self, buf: &mut BytesMut, asked: Asked) -> Result<Option<Head>, &'static str> {
        loop {
            let known = buf.len().min(BEGINNING.len());
            if buf[..known] != BEGINNING[..known] {
                return Err("it is not HTTP/1");
            }
            let Some(end) = self.end(buf)? else { return Ok(None) };
            let head = parse(&buf.split_to(end).freeze(), asked)?;
            match head {
                Some(head) => return Ok(Some(head)),
                None => *self = Self { skipped: self.skipped + end, ..Self::default() },
            }
        }
    }

    /// Where the head ends, behind its empty line.
    fn end(&mut self, buf: &[u8]) -> Result<Option<usize>, &'static str> {
        while let Some(at) = memchr::memchr(b'\n', &buf[self.scanned..]) {
            let line_end = self.scanned + at;
            if line_end == 0 || buf[line_end - 1] != b'\r' {
                return Err("a line of the head ends without a carriage return");
            }
            let is_empty = line_end - 1 == self.line;
            (self.scanned, self.line) = (line_end + 1, line_end + 1);
            if self.skipped + self.scanned > HEAD_BYTES_MAX {
                return Err("the head is too long");
            }
            if is_empty {
                return Ok(Some(self.scanned));
            }
        }
        self.scanned = buf.len();
        if self.skipped + buf.len() > HEAD_BYTES_MAX { Err("the head is too long") } else { Ok(None) }
    }
}

/// Reads a whole head; `None` for that of an interim answer.
fn parse(bytes: &Bytes, asked: Asked) -> Result<Option<Head>, &'static str> {
    let mut room = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let done =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, bytes, &mut room);
    match done {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err("the head is not whole"),
        Err(httparse::Error::TooManyHeaders) => return Err("the head has too many headers"),
        Err(_) => return Err("the head cannot be read"),
    }
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.filter(|status| status.as_u16() < 600).ok_or("the status is none")?;
    let is_http11 = parsed.version == Some(1);
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(None);
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(header.value));
        let (Ok(name), Ok(value)) = (name, value) else { return Err("a header cannot be read") };
        headers.append(name, value);
    }
    let framing = framing(&headers, status, is_http11, asked)?;
    // A length that nothing follows would be a lie if the connection went on.
    let is_certain = status != StatusCode::NO_CONTENT || !headers.contains_key(CONTENT_LENGTH);
    let keeps_alive = is_certain && keeps_alive(&headers, is_http11) && framing != Framing::UntilClose;
    let keeps_for = headers.get(KEEP_ALIVE).and_then(keeps_for);
    headers.remove(TRANSFER_ENCODING);
    // Where there is a body, it says by itself how long it is.
    if !asked.is_head && status != StatusCode::NOT_MODIFIED {
        headers.remove(CONTENT_LENGTH);
    }
    Ok(Some(Head { status, headers, framing, keeps_alive, keeps_for }))
}

fn framing(
    headers: &HeaderMap,
    status: StatusCode,
    is_http11: bool,
    asked: Asked,
) -> Result<Framing, &'static str> {
    let length = only(headers, &CONTENT_LENGTH)?.map(content_length).transpose()?;
    let is_chunked = match only(headers, &TRANSFER_ENCODING)? {
        Some(_) if length.is_some() => return Err("it has a length and a transfer coding"),
        Some(_) if !is_http11 => return Err("HTTP/1.0 has no transfer codings"),
        Some(coding) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => true,
        Some(_) => return Err("its transfer coding is not known"),
        None => false,
    };
    Ok(match status {
        StatusCode::SWITCHING_PROTOCOLS if asked.is_upgrade && is_websocket(headers) => Framing::Switched,
        StatusCode::SWITCHING_PROTOCOLS => return Err("it switches to a protocol that nobody asked for"),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Framing::Empty,
        _ if asked.is_head => Framing::Empty,
        _ if is_chunked => Framing::Chunked,
        _ => match length {
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        },
    })
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The value of a header that may stand there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, &'static str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() { Err("its framing is said twice") } else { Ok(value) }
}

/// The length that a header gives, if it is one number and nothing else.
pub(crate) fn content_length(value: &HeaderValue) -> Result<u64, &'static str> {
    let digits = value.as_bytes();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number);
    digits.and_then(|digits| digits.parse().ok()).ok_or("its length is not a number")
}

fn keeps_alive(headers: &HeaderMap, is_http11: bool) -> bool {
    let says = |word: &str| {
        let mut values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(word)))
    };
    !says("close") && (is_http11 || says("keep-alive"))
}

/// The seconds of `timeout=N`.
fn keeps_for(value: &HeaderValue) -> Option<Duration> {
    let mut parameters =
        value.to_str().ok()?.split(',').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, seconds) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
