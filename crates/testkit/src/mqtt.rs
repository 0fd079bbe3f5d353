//! A client of MQTT.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::soon;

/// A string as MQTT writes it.
pub fn mqtt_text(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

/// A client that writes its packets by hand.
pub struct MqttClient {
    stream: TcpStream,
    /// 4 for 3.1.1, or 5.
    pub version: u8,
}

/// A message.
pub struct MqttMessage {
    /// Where it was published.
    pub topic: String,
    /// What to acknowledge it by.
    pub id: Option<u16>,
    /// Its properties, of MQTT 5.
    pub properties: String,
    /// What it says.
    pub payload: Value,
}

impl MqttClient {
    /// Connects, and returns the body of the CONNACK too; `None` when the server has gone.
    pub async fn open(
        address: SocketAddr,
        version: u8,
        id: &str,
        token: &str,
        flags: u8,
        properties: &[u8],
    ) -> Option<(Self, Vec<u8>)> {
        let mut client = Self { stream: TcpStream::connect(address).await.ok()?, version };
        let mut body = [b"\0\x04MQTT", &[version, flags | 0xc0, 0, 30][..]].concat();
        if version == 5 {
            body.push(u8::try_from(properties.len()).unwrap());
            body.extend(properties);
        }
        body.extend([mqtt_text(id), mqtt_text("anyone"), mqtt_text(token)].concat());
        client.send(0x10, &body).await;
        let (head, connack) = client.next().await?;
        assert_eq!(head, 0x20);
        Some((client, connack))
    }

    /// Sends a packet.
    pub async fn send(&mut self, head: u8, body: &[u8]) {
        let mut packet = vec![head];
        let mut length = body.len();
        while length >= 0x80 {
            packet.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        packet.push(u8::try_from(length).unwrap());
        packet.extend(body);
        // A server that has gone is found out when nothing comes.
        let _ = self.stream.write_all(&packet).await;
    }

    /// The next packet; `None` when the server has closed.
    pub async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let reading = async {
            let head = self.stream.read_u8().await.ok()?;
            let (mut length, mut shift) = (0, 0);
            loop {
                let byte = self.stream.read_u8().await.ok()?;
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let mut body = vec![0; length];
            self.stream.read_exact(&mut body).await.ok()?;
            Some((head, body))
        };
        soon("a packet", reading).await
    }

    /// The reason of the server's DISCONNECT, after which it closes.
    pub async fn closed(&mut self) -> Option<u8> {
        let last = self.next().await;
        let reason = last.map(|(head, body)| {
            assert_eq!(head, 0xe0, "{body:?}");
            body[0]
        });
        if reason.is_some() {
            assert!(self.next().await.is_none());
        }
        reason
    }

    /// Nothing has come: what is asked now is answered first.
    pub async fn quiet(&mut self) {
        self.send(0xc0, &[]).await;
        assert_eq!(self.next().await.unwrap().0, 0xd0);
    }

    /// Subscribes, and returns the code.
    pub async fn subscribe(&mut self, filter: &str, qos: u8) -> u8 {
        let properties: &[u8] = if self.version == 5 { &[0] } else { &[] };
        self.send(0x82, &[&[0, 9], properties, &mqtt_text(filter), &[qos]].concat()).await;
        let (head, body) = self.next().await.unwrap();
        assert_eq!((head, &body[..2]), (0x90, &[0, 9][..]));
        *body.last().unwrap()
    }

    /// Asks to end a subscription.
    pub async fn unsubscribe(&mut self, filter: &str) {
        let properties: &[u8] = if self.version == 5 { &[0] } else { &[] };
        self.send(0xa2, &[&[0, 9], properties, &mqtt_text(filter)].concat()).await;
    }

    /// The next message.
    pub async fn published(&mut self) -> MqttMessage {
        self.published_or_end().await.unwrap()
    }

    /// The next message; `None` when the server ends the connection.
    pub async fn published_or_end(&mut self) -> Option<MqttMessage> {
        let (head, body) = self.next().await.filter(|(head, _)| *head != 0xe0)?;
        assert_eq!(head & 0xf0, 0x30, "{head:x} {body:?}");
        let end = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
        let topic = String::from_utf8(body[2..end].to_vec()).unwrap();
        let assured = head & 6 == 2;
        let id = assured.then(|| u16::from_be_bytes([body[end], body[end + 1]]));
        let mut rest = &body[end + 2 * usize::from(assured)..];
        let mut properties = String::new();
        if self.version == 5 {
            // Short enough for one or two bytes of length.
            let (length, begin) = match rest[0] {
                low if low < 0x80 => (usize::from(low), 1),
                low => (usize::from(low & 0x7f) | (usize::from(rest[1]) << 7), 2),
            };
            properties = String::from_utf8_lossy(&rest[begin..begin + length]).into_owned();
            rest = &rest[begin + length..];
        }
        Some(MqttMessage { topic, id, properties, payload: serde_json::from_slice(rest).unwrap() })
    }

    /// Takes a message.
    pub async fn acknowledge(&mut self, id: u16) {
        self.send(0x40, &id.to_be_bytes()).await;
    }

    /// Calls an operation and reads the answer, past the PUBACK.
    pub async fn call(&mut self, method: &str, payload: &str, key: Option<&str>) -> MqttMessage {
        let mut properties = [&[8][..], &mqtt_text("rpc/reply/me"), &[9], &mqtt_text("it")].concat();
        if let Some(key) = key {
            properties.extend([&[0x26][..], &mqtt_text("idempotency_key"), &mqtt_text(key)].concat());
        }
        let length = [u8::try_from(properties.len()).unwrap()];
        let topic = mqtt_text(&format!("rpc/{method}"));
        self.send(0x32, &[&topic, &[0, 7][..], &length, &properties, payload.as_bytes()].concat()).await;
        assert_eq!(self.next().await.unwrap(), (0x40, vec![0, 7]));
        let reply = self.published().await;
        self.acknowledge(reply.id.unwrap()).await;
        assert_eq!(reply.topic, "rpc/reply/me");
        assert!(reply.properties.contains("it"), "{}", reply.properties);
        reply
    }
}
