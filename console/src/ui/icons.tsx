/** A few line icons of 16 by 16, drawn for this console. They stand beside words, and so are hidden from readers. */
const PATHS = {
  overview: "M2.5 8.5 8 3l5.5 5.5M4 7.5V13h3V9.5h2V13h3V7.5",
  keys: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8.2 7.8 2.5 13.5M4.5 11.5l1.7 1.7M6.4 9.6l1.4 1.4",
  usage: "M2.5 13.5h11M4 11V8M7 11V4.5M10 11V6.5M13 11V3",
  requests: "M2.5 4h11M2.5 8h11M2.5 12h7",
  domains: "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2M2.2 8h11.6M8 2c-4.4 4-4.4 8 0 12M8 2c4.4 4 4.4 8 0 12",
  connections: "M5.5 2v3.5M10.5 2v3.5M3.5 5.5h9v2a4.5 4.5 0 0 1-9 0zM8 12v2.5",
  webhooks: "M6.2 9.3 4.6 12M8 3.5a2 2 0 0 1 1.7 3L11.4 9.4M5 9.5a2 2 0 1 0 1.6 3.2h4.2M11.5 9.5a2 2 0 1 1-1.6 3.2M8 3.5a2 2 0 0 0-1.7 3",
  events: "M1.5 8H4l1.8-4.5L9 12.5 11 8h3.5",
  audit: "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5",
  members: "M6 7.5a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6ZM1.8 13.2c.4-2.3 2-3.5 4.2-3.5s3.8 1.2 4.2 3.5M11 7.3a2 2 0 1 0-.6-3.9M11.4 9.8c1.6.2 2.6 1.3 2.9 3.1",
  settings: "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4ZM8 1.8v1.7M8 12.5v1.7M1.8 8h1.7M12.5 8h1.7M3.6 3.6l1.2 1.2M11.2 11.2l1.2 1.2M3.6 12.4l1.2-1.2M11.2 4.8l1.2-1.2",
  reference: "M3 3h4a1 1 0 0 1 1 1v9a1 1 0 0 0-1-1H3zM13 3H9a1 1 0 0 0-1 1v9a1 1 0 0 1 1-1h4z",
  copy: "M5.5 5.5V3h7.5v7.5h-2.5M3 5.5h7.5V13H3z",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  chevron: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  plus: "M8 3v10M3 8h10",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.4 10.4l3.1 3.1",
  external: "M9 3h4v4M13 3 7.5 8.5M11 9v4H3V5h4",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7.5-4.5z",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warn: "M8 2.5 14 13H2zM8 6.5v3M8 11.3v.01",
  help: "M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4ZM6.2 6.2a1.8 1.8 0 1 1 2.6 1.6c-.5.3-.8.6-.8 1.2M8 11.3v.01",
  person: "M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3 13.5c.5-2.6 2.4-4 5-4s4.5 1.4 5 4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The logo of this installation. Its name stands beside it. */
export function Mark() {
  return <img className="mark" src="/brand/logo" alt="" width="20" height="20" />;
}
