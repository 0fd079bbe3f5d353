/** The application: what is loaded while the first of its questions are on their way. */
import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { type ReactNode, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queries } from "../api/queries";
import { session } from "../auth/session";
import { Button, Empty } from "../ui/kit";
import { router } from "./router";

const root = createRoot(document.getElementById("root")!);

/** Shows the page of the address, or of this one instead. */
export function show(instead?: string) {
  if (instead !== undefined) router.history.replace(instead);
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

/** Fetches the page of that address while nobody can be shown it yet. */
export function prepare(address: string) {
  void router.preloadRoute({ to: address.split(/[?#]/)[0] ?? "/" }).catch(() => undefined);
}

function alone(title: string, text: string, action?: ReactNode) {
  root.render(
    <main className="alone">
      <Empty title={title} action={action}>
        <p>{text}</p>
      </Empty>
    </main>,
  );
}

export const showClosing = () => alone("You are signed in again", "This window can be closed.");

export const showFailure = (message: string) =>
  alone(
    "The sign-in did not succeed",
    message,
    <Button look="primary" onClick={() => void session.signIn("/")}>
      Sign in
    </Button>,
  );
