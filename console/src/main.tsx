import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/pages.css";
import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queries } from "./api/queries";
import { isOpen, router } from "./app/router";
import { session } from "./auth/session";
import { config } from "./config";
import { Button, Empty } from "./ui/kit";

const root = createRoot(document.getElementById("root")!);
const { pathname, search, hash } = window.location;

function show() {
  root.render(
    <StrictMode>
      {/* Components must not write style elements: the policy of this address forbids them. */}
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  );
}

function showFailure(message: string) {
  root.render(
    <main className="alone">
      <Empty
        title="The sign-in did not succeed"
        action={
          <Button look="primary" onClick={() => void session.signIn("/")}>
            Sign in
          </Button>
        }
      >
        <p>{message}</p>
      </Empty>
    </main>,
  );
}

async function begin() {
  // Signing in only leads back to the console's own address, so it has to be the one that is open.
  if (import.meta.env.PROD && window.location.origin !== new URL(config.consoleUrl).origin) {
    window.location.replace(config.consoleUrl + pathname + search + hash);
  } else if (pathname === "/callback") {
    const returnTo = await session.complete(search);
    if (returnTo === null) {
      window.close();
      root.render(
        <main className="alone">
          <Empty title="You are signed in again">
            <p>This window can be closed.</p>
          </Empty>
        </main>,
      );
      return;
    }
    router.history.replace(returnTo);
    show();
  } else if (isOpen(pathname)) {
    show();
  } else {
    await session.signIn(pathname + search + hash);
  }
}

begin().catch((error: unknown) => showFailure(error instanceof Error ? error.message : "Something failed."));
