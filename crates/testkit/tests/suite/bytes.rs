//! Uploads and answers of bytes, larger than anything that may be held in memory.

use std::path::Path;

use portico_kernel::Code;
use portico_store::{Db, Select, args};
use portico_testkit::lab::FILE_BYTES_MAX;
use portico_testkit::{Database, TestApp, TestDatabase, TestRequest, on_both_databases, until};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::program::{Server, admin, call};

const MIB: usize = 1 << 20;
const LARGE: usize = 200 * MIB;
/// What a transfer may add to the memory of the server, however large it is.
const MEMORY_MAX: u64 = 64 << 20;

fn files(app: &TestApp) -> String {
    format!("/v1/lab/orgs/{}/files", app.account)
}

fn upload(app: &TestApp, query: &str, body: &[u8]) -> TestRequest {
    let sent = TestRequest::new("POST", &format!("{}{query}", files(app))).bearer(&app.token);
    sent.header("content-type", "audio/mpeg").bytes(body.to_vec())
}

on_both_databases! {
    what_is_uploaded_can_be_read_in_ranges,
    an_upload_is_refused_like_any_request,
}

async fn what_is_uploaded_can_be_read_in_ranges(app: TestApp) {
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
    for query in ["", "?sealed=true"] {
        let file = app.send(upload(&app, query, &content)).await.ok();
        assert_eq!(file["size"], content.len().to_string());
        let path = format!("{}/{}", files(&app), file["id"].as_str().unwrap());
        let get = || TestRequest::new("GET", &path).bearer(&app.token);
        let whole = app.send(get()).await;
        assert_eq!((whole.status, whole.header("content-type")), (200, "audio/mpeg"));
        assert_eq!(whole.header("content-length"), content.len().to_string());
        assert_eq!(whole.header("accept-ranges"), "bytes");
        assert!(whole.body == content, "the same bytes");
        let etag = whole.header("etag").to_owned();
        let part = app.send(get().header("range", "bytes=70000-70009")).await;
        assert_eq!((part.status, part.header("content-range")), (206, "bytes 70000-70009/1200000"));
        assert_eq!(part.body, content[70_000..70_010]);
        let part = app.send(get().header("range", "bytes=-5").header("if-range", &etag)).await;
        assert_eq!((part.status, &part.body[..]), (206, &content[content.len() - 5..]));
        let beyond = app.send(get().header("range", "bytes=1200000-")).await;
        assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */1200000"));
        assert_eq!(app.send(get().header("if-none-match", &etag)).await.status, 304);
        let head = app.send(TestRequest::new("HEAD", &path).bearer(&app.token)).await;
        assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "1200000", 0));
    }
}

async fn an_upload_is_refused_like_any_request(app: TestApp) {
    app.send(TestRequest::new("POST", &files(&app)).bytes(b"x".to_vec()))
        .await
        .refused(Code::Unauthenticated);
    app.send(upload(&app, "?nope=1", b"x")).await.refused_field("nope");
    app.send(upload(&app, "?sealed=perhaps", b"x")).await.refused_field("sealed");
    let coded = upload(&app, "", b"x").header("content-encoding", "gzip");
    app.send(coded).await.refused(Code::UnsupportedMediaType);
    let path = format!("{}/{}", files(&app), "blob_00000000000000000000000000");
    app.get(&path).await.refused(Code::NotFound);
    assert_eq!(app.count("blobs").await, 0);
}

/// A server, and what it takes to call its files.
struct Setup {
    database: TestDatabase,
    server: Server,
    path: String,
    bearer: String,
}

impl Setup {
    async fn new() -> Self {
        let database = TestDatabase::create(Database::Sqlite).await;
        let server = Server::start(&database);
        let account = admin(&database, &["account", "create", "--name", "Acme"]);
        let account = account["account_id"].as_str().unwrap();
        let scopes = "webhooks:read webhooks:write";
        let token = admin(&database, &["token", "create", "--account", account, "--scopes", scopes]);
        let bearer = format!("authorization: Bearer {}", token["token"].as_str().unwrap());
        Self { path: format!("/v1/lab/orgs/{account}/files"), bearer, database, server }
    }

    async fn begin_upload(&self, query: &str, length: u64) -> TcpStream {
        let mut stream = TcpStream::connect(&self.server.api).await.unwrap();
        let head = format!(
            "POST {}{query} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{}\r\ncontent-length: {length}\r\n\r\n",
            self.path, self.bearer
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    async fn upload(&self, query: &str, length: usize) -> Value {
        let mut stream = self.begin_upload(query, length as u64).await;
        for number in 0..length / MIB {
            stream.write_all(&piece(number)).await.unwrap();
        }
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        portico_testkit::Answer::from_wire(&bytes).unwrap().ok()
    }

    /// Reads a file to its end, and checks every byte.
    async fn download(&self, id: &str, length: usize) {
        let mut stream = TcpStream::connect(&self.server.api).await.unwrap();
        let head = format!(
            "GET {}/{id} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{}\r\n\r\n",
            self.path, self.bearer
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
        let mut read = vec![0; MIB];
        for number in 0..length / MIB {
            stream.read_exact(&mut read).await.unwrap();
            assert!(read == piece(number), "MiB {number}");
        }
        assert_eq!(stream.read(&mut read).await.unwrap(), 0);
    }

    /// The number in the server's status that follows `name`, in bytes.
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap() << 10
    }

    /// Runs a transfer; returns by how much the memory of the server peaked above what it was.
    async fn peak(&self, transfer: impl Future<Output = ()>) -> u64 {
        std::fs::write(format!("/proc/{}/clear_refs", self.server.id()), "5").unwrap();
        let before = self.memory("VmRSS:");
        transfer.await;
        self.memory("VmHWM:").saturating_sub(before)
    }
}

/// A MiB that no other is like: by its first bytes, because an unoptimised test is slow to make the rest.
fn piece(number: usize) -> Vec<u8> {
    let mut piece = vec![0xa5; MIB];
    piece[..8].copy_from_slice(&(number as u64).to_be_bytes());
    piece
}

fn stored(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.map(|entry| entry.unwrap().path()).map(|path| if path.is_dir() { stored(&path) } else { 1 }).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_mebibytes_take_little_memory() {
    let setup = Setup::new().await;
    // Sealing is slow in an unoptimised build, so less is sealed; what it holds in memory is one piece either way.
    for (query, length) in [("", LARGE), ("?sealed=true", LARGE / 8)] {
        let mut id = String::new();
        let upload = async { id = setup.upload(query, length).await["id"].as_str().unwrap().to_owned() };
        let taken = setup.peak(upload).await;
        let given = setup.peak(setup.download(&id, length)).await;
        println!("{query:?}: an upload added {} KiB, an answer {} KiB", taken >> 10, given >> 10);
        assert!(taken < MEMORY_MAX && given < MEMORY_MAX, "{taken} and {given} bytes");
    }
}

/// A file may look like an answer, also where a piece of it is written by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_looks_like_a_refusal_is_sent_as_it_is() {
    let setup = Setup::new().await;
    let content = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    let mut stream = setup.begin_upload("", content.len() as u64).await;
    stream.write_all(content).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let file = portico_testkit::Answer::from_wire(&bytes).unwrap().ok();
    let head = format!("GET {}/{} HTTP/1.1\r\n{}", setup.path, file["id"].as_str().unwrap(), setup.bearer);
    let whole = call(&setup.server.api, &head, "").await.unwrap();
    assert_eq!((whole.status, &whole.body[..]), (200, &content[..]));
    let part = call(&setup.server.api, &format!("{head}\r\nrange: bytes=0-11"), "").await.unwrap();
    assert_eq!((part.status, &part.body[..]), (206, &content[..12]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_upload_leaves_nothing() {
    let setup = Setup::new().await;
    let mut stream = setup.begin_upload("", LARGE as u64).await;
    for number in 0..8 {
        stream.write_all(&piece(number)).await.unwrap();
    }
    let folder = setup.database.folder.path().join("blobs");
    until("some of it has arrived", async || stored(&folder) == 1).await;
    drop(stream);
    until("what had arrived is gone", async || stored(&folder) == 0).await;
    let db = Db::open(&setup.database.url).await.unwrap();
    let rows: i64 = db.query().value("select count(*) as value from blobs", args![]).await.unwrap();
    assert_eq!(rows, 0);
    db.close().await;

    // Too much is refused before it is sent, where it says so.
    let mut stream = setup.begin_upload("", FILE_BYTES_MAX + 1).await;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    portico_testkit::Answer::from_wire(&bytes).unwrap().refused(Code::PayloadTooLarge);
    let me = call(&setup.server.api, &format!("GET /healthz HTTP/1.1\r\n{}", setup.bearer), "").await;
    me.unwrap().ok();
}
