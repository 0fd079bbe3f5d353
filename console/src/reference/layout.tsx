/** The frame of the reference: search and contents at the left, the token at the top. It needs nobody to be signed in. */
import { Dialog } from "@base-ui/react/dialog";
import { useMutation } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { type MouseEvent, type ReactNode, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { operationPath } from "../api/digest";
import { useMe } from "../app/account";
import { useHeadingFocus } from "../app/heading-focus";
import { Notices } from "../app/notices";
import { session, useSession } from "../auth/session";
import { config } from "../config";
import "../styles/reference.css";
import { Icon, Mark } from "../ui/icons";
import { Button, ErrorNote, Field, Finder, Form, holds, Waiting } from "../ui/kit";
import { GUIDES } from "./guides";
import { useEvents, useReference, useStreams } from "./live";
import { type Entry, entries } from "./search";
import { forgetToken, makeTestToken, takeToken, useTestToken } from "./test-token";

const FOUND_MAX = 30;

function Search({ onGo }: { onGo: () => void }) {
  const { operations, services } = useReference();
  const { events } = useEvents();
  const streams = useStreams();
  // Made when somebody begins to type.
  const all = useMemo(() => {
    let made: Entry[] | undefined;
    return () => (made ??= entries({ guides: GUIDES, reference: { operations, services }, events, streams }));
  }, [operations, services, events, streams]);
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const typing = (event.target as Element).closest("input, textarea, select");
      if ((event.key === "/" && !typing) || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k")) {
        event.preventDefault();
        input.current?.focus();
        input.current?.select();
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  const find = (words: readonly string[]) => {
    const [first] = words;
    if (first === undefined) return [];
    const score = (title: string) => (title.toLowerCase().startsWith(first) ? 0 : title.toLowerCase().includes(first) ? 1 : 2);
    return all()
      .filter(({ title, detail, kind }) => holds(`${title} ${detail} ${kind}`, words))
      .sort((a, b) => score(a.title) - score(b.title))
      .slice(0, FOUND_MAX);
  };
  return (
    <Finder
      input={input}
      label="Search operations, fields, events, streams and guides"
      placeholder="Search  /"
      find={find}
      onGo={({ to }) => {
        onGo();
        void navigate({ to });
      }}
    />
  );
}

/** Plain links, since there are many; one handler for all of them keeps the page. */
function Contents({ onGo }: { onGo: () => void }) {
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const { groups } = useReference();
  const { events } = useEvents();
  const { channels } = useStreams();
  const entry = (to: string, name: ReactNode) => (
    <a key={to} href={to} aria-current={pathname === to ? "page" : undefined}>
      {name}
    </a>
  );
  const follow = (event: MouseEvent) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[href^='/reference/']");
    if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    onGo();
    void navigate({ to: link.getAttribute("href")! });
  };
  return (
    <nav aria-label="Reference" className="ref-nav" onClick={follow}>
      <Link to="/" className="only-narrow" onClick={onGo}>
        To the console
      </Link>
      <h2>Guides</h2>
      {GUIDES.map(({ slug, title }) => entry(`/reference/guides/${slug}`, title))}
      {groups.map(({ title, operations }) => (
        // Two services may have one title.
        <div key={operations[0]?.rpc}>
          <h2>{title}</h2>
          {operations.map(({ rpc, title: name, method }) =>
            entry(
              operationPath(rpc),
              <>
                <span className={`method ${method.toLowerCase()}`}>{method === "DELETE" ? "DEL" : method}</span>
                {name}
              </>,
            ),
          )}
        </div>
      ))}
      <h2>Streams</h2>
      {channels.map(({ id, title }) => entry(`/reference/streams/${id}`, title))}
      <h2>Event types</h2>
      {events.map(({ type }) => entry(`/reference/events/${type}`, <code>{type}</code>))}
    </nav>
  );
}

function SignedInToken() {
  const me = useMe();
  const accounts = me.data ? [...(me.data.account ? [me.data.account] : []), ...me.data.teams] : [];
  const [chosen, setChosen] = useState("");
  const org = chosen || accounts[0]?.id || "";
  const { scopes } = useReference();
  const make = useMutation({ mutationFn: () => makeTestToken(org, scopes) });
  return (
    <>
      {accounts.length > 1 && (
        <select aria-label="Account of the test token" value={org} onChange={(event) => setChosen(event.target.value)}>
          {accounts.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      )}
      <Button small look="primary" busy={make.isPending} disabled={org === ""} onClick={() => make.mutate()}>
        Make a test token
      </Button>
      {make.error && <ErrorNote error={make.error} />}
    </>
  );
}

function PasteToken({ onClose }: { onClose: () => void }) {
  const [token, setToken] = useState("");
  const take = useMutation({ mutationFn: () => takeToken(token.trim()), onSuccess: onClose });
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <div className="dialog-head">
            <Dialog.Title>Use a token of yours</Dialog.Title>
          </div>
          <Form onSubmit={() => take.mutate()} error={undefined} busy={take.isPending} submit="Use it" onCancel={onClose} disabled={token.trim() === ""}>
            <Field label="API token" hint="It stays in this page, and is sent to the API alone." error={take.error?.message}>
              {(control) => (
                <input {...control} type="password" autoComplete="off" value={token} onChange={(event) => setToken(event.target.value)} autoFocus />
              )}
            </Field>
          </Form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Which token examples and tries use. */
function TokenBar() {
  const token = useTestToken();
  const state = useSession();
  const { pathname } = useLocation();
  const [pasting, setPasting] = useState(false);
  if (token) {
    return (
      <div className="token-bar">
        <span className="quiet only-wide">
          Examples use <strong>{token.name || "your token"}</strong>
        </span>
        <Button small onClick={forgetToken}>
          Forget it
        </Button>
      </div>
    );
  }
  return (
    <div className="token-bar">
      {state === "none" ? (
        <Button small look="primary" onClick={() => void session.signIn(pathname)}>
          Sign in to try
        </Button>
      ) : (
        <SignedInToken />
      )}
      <Button small onClick={() => setPasting(true)}>
        Use a token
      </Button>
      {pasting && <PasteToken onClose={() => setPasting(false)} />}
    </div>
  );
}

export default function ReferenceLayout() {
  const { pathname } = useLocation();
  const { groups } = useReference();
  const [drawer, setDrawer] = useState(false);
  const main = useRef<HTMLElement>(null);
  useHeadingFocus(main, pathname);
  useEffect(() => {
    // Whoever came by a link sees where in the contents they are, also when that came later.
    document.querySelector(".ref-side [aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [pathname, groups]);
  const close = () => setDrawer(false);
  return (
    <div className="ref">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <header className="ref-top">
        <Dialog.Root open={drawer} onOpenChange={setDrawer}>
          <Dialog.Trigger className="button quiet only-narrow" aria-label="Contents">
            <Icon name="menu" />
          </Dialog.Trigger>
          <Dialog.Portal>
            <Dialog.Backdrop className="backdrop" />
            <Dialog.Popup className="drawer" aria-label="Contents">
              <Search onGo={close} />
              <Contents onGo={close} />
            </Dialog.Popup>
          </Dialog.Portal>
        </Dialog.Root>
        <Link to="/reference" className="brand" aria-label="Reference">
          <Mark /> <strong className="only-wide">{config.brand.name}</strong> <span className="quiet only-wide">Reference</span>
        </Link>
        <TokenBar />
        <Link to="/" className="button small only-wide">
          Console
        </Link>
      </header>
      <aside className="ref-side" aria-label="Contents">
        <Search onGo={close} />
        <Contents onGo={close} />
      </aside>
      <main id="main" className="ref-main" ref={main}>
        <Notices />
        <Suspense fallback={<Waiting rows={6} />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}
