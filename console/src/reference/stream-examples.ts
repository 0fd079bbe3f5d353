/** Programs that use what stays open. */
import { config } from "../config";
import { curl, TOKEN } from "../ui/curl";
import type { Channel } from "./streams";

const host = new URL(config.baseUrl).hostname;
const socketUrl = config.baseUrl.replace(/^http/, "ws");

const SOCKET = `// Node 22 or later
const socket = new WebSocket("${socketUrl}/v1/socket", ["platform.v1"]);
const send = (frame: object) => socket.send(JSON.stringify(frame));
socket.onopen = () => send({ type: "auth", token: process.env.PORTICO_TOKEN });
socket.onmessage = ({ data }) => {
  const frame = JSON.parse(data);
  if (frame.type === "ready") {
    send({ type: "subscribe", id: "1" });
    send({ type: "call", id: "2", method: "events.types.list", params: { page_size: 1 } });
  }
  console.log(frame);
};`;

const WSCAT = `npx wscat -s platform.v1 -H "Authorization: Bearer ${TOKEN}" -c ${socketUrl}/v1/socket
> {"type":"subscribe","id":"1"}`;

const mqtt = (program: string, rest: string) => `${program} -h ${host} -V 5 -u token -P "${TOKEN}" \\\n  ${rest}`;

export function streamExamples({ id, transport }: Channel): [string, string][] {
  if (transport === "sse") return [["Follow it with curl", curl("GET", "/v1/events/stream", TOKEN).replace("curl -s", "curl -sN")]];
  if (transport === "socket") {
    return [
      ["wscat", WSCAT],
      ["TypeScript", SOCKET],
    ];
  }
  if (id === "mqttEvents") return [["Follow them with mosquitto", mqtt("mosquitto_sub", "-t 'events/#' -q 1 -i laptop -c")]];
  return [["Call with mosquitto", mqtt("mosquitto_rr", "-t rpc/identity.me.get -e rpc/reply/me -m '{}'")]];
}
