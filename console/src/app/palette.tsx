/** Goes anywhere by a few letters: pages, keys, endpoints, operations, and ids that were pasted. */
import { Dialog } from "@base-ui/react/dialog";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Schemas } from "../api/client";
import { operationPath } from "../api/digest";
import { Finder, type Found, holds } from "../ui/kit";
import type { Search } from "../ui/url";
import { useWorkplace } from "./account";
import { useDigest } from "./digest";
import { visiblePages } from "./shell";

interface Place extends Found {
  to: string;
  search?: Search;
}

const SHOWN_MAX = 12;

/** Where an id leads, whatever case it was typed in. */
function byId(typed: string): Place[] {
  const [prefix, rest] = [typed.slice(0, 4), typed.slice(4)];
  const text = prefix + rest.toUpperCase();
  const kinds: [string, string, string, Search?][] = [
    ["whe_", "Endpoint", `/webhooks/${text}`],
    ["con_", "Connection", `/connections/${text}`],
    ["evt_", "Event", "/events", { open: text }],
    ["req_", "Request", "/requests", { open: text }],
    ["key_", "Key", "/keys", { open: text }],
    ["tok_", "Token", "/keys", { tab: "tokens", open: text }],
    ["aud_", "Audit entry", "/audit", { open: text }],
  ];
  return kinds
    .filter(([start]) => prefix === start && rest !== "")
    .map(([, kind, to, search]) => ({ id: `${kind} ${text}`, title: text, kind, to, search: search ?? {} }));
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const place = useWorkplace();
  const client = useQueryClient();
  const navigate = useNavigate();
  const { operations, services } = useDigest();

  const all = useMemo<Place[]>(() => {
    const org = place.account.id;
    const keys = client.getQueryData<Schemas["Key"][]>(["keys", org]) ?? [];
    const tokens = client.getQueryData<Schemas["Key"][]>(["tokens", org]) ?? [];
    const endpoints = client.getQueryData<Schemas["Endpoint"][]>(["endpoints", org]) ?? [];
    const connections = client.getQueryData<{ pages: { connections: Schemas["Connection"][] }[] }>(["connections", org])?.pages ?? [];
    return [
      ...visiblePages(place).map(({ title, path }) => ({ id: path, title, kind: "Page", to: path })),
      ...endpoints.map(({ id, url, description }) => ({ id, title: description || url, kind: "Endpoint", to: `/webhooks/${id}` })),
      ...connections
        .flatMap(({ connections: some }) => some)
        .map(({ id, name }) => ({ id, title: name, kind: "Connection", to: `/connections/${id}` })),
      ...keys.map(({ id, name }) => ({ id, title: name || id, kind: "Key", to: "/keys", search: { open: id } })),
      ...tokens.map(({ id, name }) => ({ id, title: name || id, kind: "Token", to: "/keys", search: { tab: "tokens", open: id } })),
      ...operations.map(({ summary, rpc, service }) => ({ id: rpc, title: summary, kind: services[service] ?? "Reference", to: operationPath(rpc) })),
    ];
  }, [client, place, operations, services]);

  const find = (words: readonly string[]) =>
    [...byId(words.join(" ")), ...all.filter(({ title, kind }) => holds(`${title} ${kind}`, words))].slice(0, SHOWN_MAX);
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Search">
          <Finder
            autoFocus
            label="Search pages, keys, endpoints and operations, or paste an id"
            placeholder="A page, a key, an endpoint, an operation, or an id"
            find={find}
            onGo={({ to, search }) => {
              onClose();
              void navigate({ to, search: (search ?? {}) as never });
            }}
          />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
