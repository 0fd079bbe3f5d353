/** The frame around every page of an account: where one is, where one can go, and what is wrong with the connection. */
import { Dialog } from "@base-ui/react/dialog";
import { Menu } from "@base-ui/react/menu";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { Suspense, lazy, useEffect, useRef, useState } from "react";
import { refreshAfter } from "../api/queries";
import { session } from "../auth/session";
import { config, entitle } from "../config";
import { stream, useStream } from "../live/stream";
import { PAGES } from "../pages/registry";
import { Icon, Mark } from "../ui/icons";
import { Badge, Empty, ErrorNote, Waiting } from "../ui/kit";
import { loadChart } from "../ui/lazy-chart";
import { useQueryParams } from "../ui/url";
import { useMe, useWorkplace, type Workplace, workplace, WorkplaceProvider } from "./account";
import { useHeadingFocus } from "./heading-focus";
import { useHotkeys } from "./hotkeys";
import { Notices } from "./notices";

const PREFETCH_AFTER_MS = 1500;

const loadPalette = () => import("./palette");
const Palette = lazy(loadPalette);
/** So that dialogs open with what services bring. */
const loadDigest = (org: string) => import("./digest").then(({ prefetchDigest }) => prefetchDigest(org));
const NewTeam = lazy(() => import("./new-team"));

export function visiblePages(place: Workplace) {
  return PAGES.filter((page) => (!page.least || place.may(page.least)) && (!page.team || place.account.kind === "team"));
}

function AccountSwitcher() {
  const { account, accounts } = useWorkplace();
  const navigate = useNavigate();
  const [creating, setCreating] = useState(false);
  const go = (id: string) => {
    const own = accounts[0]?.id === id;
    void navigate({ to: "/", search: { account: own ? undefined : id } as never });
  };
  return (
    <>
      <Menu.Root>
        <Menu.Trigger className="switcher">
          <span className="avatar" aria-hidden="true">
            {account.name.trim().charAt(0).toUpperCase()}
          </span>
          <span className="switcher-name">
            <strong>{account.name}</strong>
            <span>{account.kind === "personal" ? "Personal" : `Team, ${account.role}`}</span>
          </span>
          <Icon name="chevron" />
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner sideOffset={4} align="start" className="positioner">
            <Menu.Popup className="menu">
              <Menu.RadioGroup value={account.id} onValueChange={go}>
                {accounts.map(({ id, name, kind, plan }) => (
                  <Menu.RadioItem key={id} value={id} className="menu-item" closeOnClick>
                    <span>{name}</span>
                    <span className="quiet">{kind === "personal" ? "personal" : plan}</span>
                    <Menu.RadioItemIndicator>
                      <Icon name="check" />
                    </Menu.RadioItemIndicator>
                  </Menu.RadioItem>
                ))}
              </Menu.RadioGroup>
              <Menu.Separator className="menu-line" />
              <Menu.Item className="menu-item" onClick={() => setCreating(true)}>
                <Icon name="plus" /> Make a team
              </Menu.Item>
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {creating && (
        <Suspense>
          <NewTeam onClose={() => setCreating(false)} onMade={go} />
        </Suspense>
      )}
    </>
  );
}

function PersonMenu() {
  const { person } = useWorkplace();
  return (
    <Menu.Root>
      <Menu.Trigger className="switcher person">
        <Icon name="person" />
        <span className="switcher-name">
          <strong>{person.name || person.email}</strong>
          {person.name && <span>{person.email}</span>}
        </span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner sideOffset={4} side="top" align="start" className="positioner">
          <Menu.Popup className="menu">
            <Menu.Item className="menu-item" render={<a href={`${config.authUrl}/settings`} />}>
              Password, passkeys, sessions and apps <Icon name="external" />
            </Menu.Item>
            {config.brand.termsUrl && (
              <Menu.Item className="menu-item" render={<a href={config.brand.termsUrl} />}>
                Terms <Icon name="external" />
              </Menu.Item>
            )}
            <Menu.Separator className="menu-line" />
            <Menu.Item className="menu-item" onClick={() => void session.signOut()}>
              Sign out everywhere
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

function LiveDot() {
  const { state } = useStream();
  const words = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", refused: "Not live" }[state];
  return (
    <span className={`live ${state}`} role="status" title="Events of this account, as they happen">
      {words}
    </span>
  );
}

function Navigation({ onGo }: { onGo?: () => void }) {
  const place = useWorkplace();
  return (
    <>
      <div className="side-brand">
        <Mark />
        <strong>{config.brand.name}</strong>
      </div>
      <AccountSwitcher />
      <nav aria-label="Pages">
        {visiblePages(place).map((page) => (
          <Link
            key={page.path}
            to={page.path}
            className="nav-item"
            activeOptions={{ exact: page.path === "/", includeSearch: false }}
            activeProps={{ "aria-current": "page" }}
            onClick={onGo}
          >
            <Icon name={page.icon} />
            {page.title}
          </Link>
        ))}
      </nav>
      <nav aria-label="Documents" className="nav-foot">
        <Link to="/reference" className="nav-item" onClick={onGo}>
          <Icon name="reference" />
          Reference and guides
        </Link>
        {config.brand.supportUrl && (
          <a href={config.brand.supportUrl} className="nav-item">
            <Icon name="help" />
            Help
          </a>
        )}
      </nav>
      <PersonMenu />
    </>
  );
}

function Frame() {
  const place = useWorkplace();
  const { pathname } = useLocation();
  const [drawer, setDrawer] = useState(false);
  const [palette, setPalette] = useState(false);
  const main = useRef<HTMLElement>(null);
  useHotkeys(visiblePages(place), () => setPalette(true));

  const { id } = place.account;
  useEffect(() => {
    stream.follow(id);
    return stream.observe((event) => {
      const data = event.data as { action?: string };
      refreshAfter(event.type, data.action ?? "");
    });
  }, [id]);

  // The other pages are fetched while nobody waits, so that they open at once, and also when the network is gone.
  useEffect(() => {
    let isOver = false;
    const fetchAll = async () => {
      const loads = PAGES.flatMap(({ load, below = [] }) => [load, ...below.map((page) => page.load)]);
      // One after another, each when there is nothing else to do.
      for (const load of [() => loadDigest(id), loadPalette, ...loads, loadChart]) {
        await new Promise((idle) => requestIdleCallback(idle, { timeout: PREFETCH_AFTER_MS }));
        if (isOver) return;
        await load().catch(() => undefined);
      }
    };
    const timer = setTimeout(() => void fetchAll(), PREFETCH_AFTER_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [id]);

  useHeadingFocus(main, pathname);
  useEffect(() => {
    const page = PAGES.find(({ path }) => (path === "/" ? pathname === "/" : pathname.startsWith(path)));
    entitle(page?.title ?? "Console", place.account.name);
  }, [pathname, place.account.name]);

  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <aside className="side" aria-label="Account and pages">
        <Navigation />
      </aside>
      <header className="top">
        <Dialog.Root open={drawer} onOpenChange={setDrawer}>
          <Dialog.Trigger className="button quiet only-narrow" aria-label="Account and pages">
            <Icon name="menu" />
          </Dialog.Trigger>
          <Dialog.Portal>
            <Dialog.Backdrop className="backdrop" />
            <Dialog.Popup className="drawer" aria-label="Account and pages">
              <Navigation onGo={() => setDrawer(false)} />
            </Dialog.Popup>
          </Dialog.Portal>
        </Dialog.Root>
        <Link to="/" className="brand only-narrow" aria-label="Overview">
          <Mark />
        </Link>
        <button type="button" className="search-button" onClick={() => setPalette(true)}>
          <Icon name="search" />
          <span>Search or go to…</span>
          <kbd>Ctrl K</kbd>
        </button>
        <LiveDot />
      </header>
      <main id="main" ref={main}>
        <Notices />
        {place.account.status !== "active" && (
          <div className="notice warn">
            <Icon name="warn" />
            <span>
              {place.account.status === "erasing"
                ? "This account is about to be erased. Its keys and tokens are refused until then; an owner can keep it."
                : "This account is suspended."}
            </span>
            {place.account.status === "erasing" && (
              <Link to="/settings" className="button small">
                To the settings
              </Link>
            )}
          </div>
        )}
        <Suspense fallback={<Waiting rows={6} />}>
          <Outlet />
        </Suspense>
      </main>
      {palette && (
        <Suspense>
          <Palette onClose={() => setPalette(false)} />
        </Suspense>
      )}
    </div>
  );
}

export default function Shell() {
  const me = useMe();
  const { account: named } = useQueryParams();
  if (me.data === undefined) {
    return (
      <div className="alone">
        <Notices />
        {me.error ? <ErrorNote error={me.error} retry={() => void me.refetch()} /> : <Waiting rows={3} />}
      </div>
    );
  }
  const place = workplace(me.data, named);
  if (place === null) {
    return (
      <main className="alone">
        <Empty
          title="You do not belong to this account"
          action={
            <Link to="/" search={{ account: undefined } as never} className="button primary">
              To your own account
            </Link>
          }
        >
          <p>
            The address names <Badge>{named}</Badge>. You may have been removed from it, or it was erased.
          </p>
        </Empty>
      </main>
    );
  }
  return (
    <WorkplaceProvider value={place}>
      <Frame key={place.account.id} />
    </WorkplaceProvider>
  );
}
