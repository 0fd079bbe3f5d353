import {
  type AnyRoute,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
} from "@tanstack/react-router";
import { PAGES } from "../pages/registry";
import { NotFound, PageError } from "./fallbacks";

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });

/** Everything that needs somebody to be signed in. */
const signedIn = createRoute({
  id: "signed-in",
  getParentRoute: () => root,
  // On its own, since the reference does without it.
  component: lazyRouteComponent(() => import("./shell")),
  // The account stays, whatever page is next.
  search: {
    middlewares: [
      ({ search, next }) => {
        const account = (search as { account?: string }).account;
        const after = next(search) as { account?: string };
        return account === undefined || "account" in after ? after : { ...after, account };
      },
    ],
  },
});

function route(path: string, load: () => Promise<{ default: React.ComponentType }>): AnyRoute {
  return createRoute({ path, getParentRoute: () => signedIn, component: lazyRouteComponent(load) });
}

const pages = PAGES.flatMap((page) => [page, ...(page.below ?? [])]).map(({ path, load }) => route(path, load));

const reference = createRoute({
  path: "/reference",
  getParentRoute: () => root,
  component: lazyRouteComponent(() => import("../reference/layout")),
});
const referencePages = [
  createRoute({
    path: "/",
    getParentRoute: () => reference,
    component: lazyRouteComponent(() => import("../reference/home")),
  }),
  createRoute({
    path: "guides/$guide",
    getParentRoute: () => reference,
    component: lazyRouteComponent(() => import("../reference/guide")),
  }),
  createRoute({
    path: "streams/$channel",
    getParentRoute: () => reference,
    component: lazyRouteComponent(() => import("../reference/stream")),
  }),
  createRoute({
    path: "events/$type",
    getParentRoute: () => reference,
    component: lazyRouteComponent(() => import("../reference/event")),
  }),
  createRoute({
    path: "$operation",
    getParentRoute: () => reference,
    component: lazyRouteComponent(() => import("../reference/operation")),
  }),
];

export const router = createRouter({
  routeTree: root.addChildren([signedIn.addChildren(pages), reference.addChildren(referencePages)]),
  defaultPreload: "intent",
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
  // Every parameter is a text, as it stands in the address.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
    const text = new URLSearchParams(given as [string, string][]).toString();
    return text === "" ? "" : `?${text}`;
  },
});
