/** The pages of an account. A new one is a folder and a line here. */
import type { ComponentType } from "react";
import type { Role } from "../app/account";
import type { IconName } from "../ui/icons";

export interface Page {
  path: string;
  title: string;
  icon: IconName;
  /** Behind `g`, the letter that leads to it. */
  letter: string;
  /** The least role that it is for. */
  least?: Role;
  /** Is it for teams alone? */
  team?: boolean;
  load: () => Promise<{ default: ComponentType }>;
  /** Pages below it, which have no entry of their own. */
  below?: { path: string; load: () => Promise<{ default: ComponentType }> }[];
}

export const PAGES: readonly Page[] = [
  { path: "/", title: "Overview", icon: "overview", letter: "o", load: () => import("./overview") },
  { path: "/keys", title: "Keys and tokens", icon: "keys", letter: "k", least: "admin", load: () => import("./keys") },
  {
    path: "/webhooks",
    title: "Webhooks",
    icon: "webhooks",
    letter: "w",
    load: () => import("./webhooks"),
    below: [
      { path: "/webhooks/inbox", load: () => import("./webhooks/inbox") },
      { path: "/webhooks/$endpoint", load: () => import("./webhooks/endpoint") },
    ],
  },
  {
    path: "/connections",
    title: "Connections",
    icon: "connections",
    letter: "c",
    load: () => import("./connections"),
    below: [
      { path: "/connections/callback", load: () => import("./connections/callback") },
      { path: "/connections/$connection", load: () => import("./connections/connection") },
    ],
  },
  {
    path: "/domains",
    title: "Domains",
    icon: "domains",
    letter: "d",
    load: () => import("./domains"),
    below: [{ path: "/domains/$domain", load: () => import("./domains/domain") }],
  },
  { path: "/events", title: "Events", icon: "events", letter: "e", load: () => import("./events") },
  { path: "/requests", title: "Requests", icon: "requests", letter: "r", load: () => import("./requests") },
  { path: "/usage", title: "Usage", icon: "usage", letter: "u", load: () => import("./usage") },
  { path: "/audit", title: "Audit log", icon: "audit", letter: "a", load: () => import("./audit") },
  { path: "/members", title: "Members", icon: "members", letter: "m", team: true, load: () => import("./members") },
  { path: "/settings", title: "Settings", icon: "settings", letter: "s", load: () => import("./settings") },
];
