/** Goes anywhere by a few letters: pages, keys, endpoints, operations, and ids that were pasted. */
import { Dialog } from "@base-ui/react/dialog";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Schemas } from "../api/client";
import { OPERATIONS } from "../api/document.gen";
import type { Search } from "../ui/url";
import { useWorkplace } from "./account";
import { visiblePages } from "./shell";

interface Place {
  name: string;
  kind: string;
  to: string;
  search?: Search;
}

const SHOWN_MAX = 12;

/** Where an id leads. */
function byId(text: string): Place[] {
  const kinds: [string, string, string, Search?][] = [
    ["whe_", "Endpoint", `/webhooks/${text}`],
    ["evt_", "Event", "/events", { open: text }],
    ["req_", "Request", "/requests", { open: text }],
    ["key_", "Key", "/keys", { open: text }],
    ["tok_", "Token", "/keys", { tab: "tokens", open: text }],
    ["aud_", "Audit entry", "/audit", { open: text }],
  ];
  return kinds
    .filter(([prefix]) => text.startsWith(prefix))
    .map(([, kind, to, search]) => ({ name: text, kind, to, search: search ?? {} }));
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const place = useWorkplace();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);

  const all = useMemo<Place[]>(() => {
    const org = place.account.id;
    const keys = client.getQueryData<Schemas["Key"][]>(["keys", org]) ?? [];
    const tokens = client.getQueryData<Schemas["Key"][]>(["tokens", org]) ?? [];
    const endpoints = client.getQueryData<Schemas["Endpoint"][]>(["endpoints", org]) ?? [];
    return [
      ...visiblePages(place).map(({ title, path }) => ({ name: title, kind: "Page", to: path })),
      ...endpoints.map(({ id, url, description }) => ({ name: description || url, kind: "Endpoint", to: `/webhooks/${id}` })),
      ...keys.map(({ id, name }) => ({ name: name || id, kind: "Key", to: "/keys", search: { open: id } })),
      ...tokens.map(({ id, name }) => ({ name: name || id, kind: "Token", to: "/keys", search: { tab: "tokens", open: id } })),
      ...OPERATIONS.map(({ summary, rpc }) => ({ name: summary, kind: "Reference", to: `/reference/${rpc}` })),
    ];
  }, [client, place]);

  const words = text.toLowerCase().trim().split(/\s+/);
  const found = [
    ...byId(text.trim()),
    ...all.filter(({ name, kind }) => words.every((word) => `${name} ${kind}`.toLowerCase().includes(word))),
  ].slice(0, SHOWN_MAX);
  const go = (to: Place | undefined) => {
    if (!to) return;
    onClose();
    void navigate({ to: to.to, search: (to.search ?? {}) as never });
  };
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Search">
          <input
            autoFocus
            role="combobox"
            aria-expanded="true"
            aria-controls="palette-list"
            aria-activedescendant={found[at] ? `palette-${at}` : undefined}
            aria-label="Search pages, keys, endpoints and operations, or paste an id"
            placeholder="A page, a key, an endpoint, an operation, or an id"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setAt(0);
            }}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
              else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
              else if (event.key === "Enter") go(found[at]);
              else return;
              event.preventDefault();
            }}
          />
          <ul id="palette-list" role="listbox" aria-label="Results">
            {found.map((each, index) => (
              // The keyboard goes by way of the field above.
              <li
                key={`${each.kind} ${each.to} ${each.name}`}
                id={`palette-${index}`}
                role="option"
                aria-selected={index === at}
                onMouseMove={() => setAt(index)}
                onClick={() => go(each)}
              >
                <span>{each.name}</span>
                <span className="quiet">{each.kind}</span>
              </li>
            ))}
          </ul>
          {found.length === 0 && <p className="quiet">Nothing is called that.</p>}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
