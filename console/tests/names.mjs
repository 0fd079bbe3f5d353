// Resolvers that know what a test tells them, over UDP: enough of DNS to prove a domain by.
import { createSocket } from "node:dgram";

const KINDS = { NS: 2, CNAME: 5, SOA: 6, TXT: 16 };

const labels = (name) => Buffer.concat([...name.split(".").map((label) => Buffer.from([label.length, ...Buffer.from(label)])), Buffer.from([0])]);

function read(message) {
  const parts = [];
  let at = 12;
  while (message[at] !== 0) {
    parts.push(message.toString("latin1", at + 1, at + 1 + message[at]).toLowerCase());
    at += 1 + message[at];
  }
  return { name: parts.join("."), kind: message.readUInt16BE(at + 1), end: at + 5 };
}

function row(name, kind, data) {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(kind, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(60, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([labels(name), fixed, data]);
}

export class Names {
  /** So many resolvers that all see the same. */
  static async start(count) {
    const names = new Names();
    names.zones = new Map();
    names.texts = new Map();
    names.sockets = await Promise.all(
      Array.from({ length: count }, async () => {
        const socket = createSocket("udp4");
        socket.on("message", (message, { port, address }) => socket.send(names.answer(message), port, address));
        await new Promise((done) => socket.bind(0, "127.0.0.1", done));
        return socket;
      }),
    );
    names.env = {
      PORTICO_DNS_RESOLVERS: names.sockets.map((socket) => `127.0.0.1:${socket.address().port}`).join(","),
      PORTICO_DNS_AUTHORITATIVE_PORT: "0",
    };
    return names;
  }

  /** A zone that these servers serve. */
  zone(apex, ...servers) {
    this.zones.set(apex, servers);
  }

  /** Lets these be all TXT records of the name. */
  txt(name, ...values) {
    this.texts.set(name, values);
  }

  answer(question) {
    const { name, kind, end } = read(question);
    const apex = [...this.zones.keys()].find((zone) => name === zone || name.endsWith(`.${zone}`));
    const soa = Buffer.concat([labels(`ns.${apex ?? "root"}`), labels(`root.${apex ?? "root"}`), Buffer.from("00000001000000010000000100000001" + "0000003c", "hex")]);
    const text = (value) => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
    let rows = [];
    if (kind === KINDS.TXT) rows = (this.texts.get(name) ?? []).map((value) => row(name, kind, text(value)));
    if (kind === KINDS.SOA && name === apex) rows = [row(name, kind, soa)];
    if (kind === KINDS.NS && name === apex) rows = this.zones.get(apex).map((server) => row(name, kind, labels(server)));
    const exists = apex === name || [...this.texts.entries()].some(([known, values]) => values.length > 0 && (known === name || known.endsWith(`.${name}`)));
    const head = Buffer.from(question.subarray(0, 12));
    head.writeUInt16BE(0x8180 | (exists || rows.length > 0 ? 0 : 3), 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(rows.length, 6);
    head.writeUInt16BE(rows.length === 0 && apex ? 1 : 0, 8);
    head.writeUInt16BE(0, 10);
    const authority = rows.length === 0 && apex ? [row(apex, KINDS.SOA, soa)] : [];
    return Buffer.concat([head, question.subarray(12, end), ...rows, ...authority]);
  }

  end() {
    for (const socket of this.sockets) socket.close();
  }
}
