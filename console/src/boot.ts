/**
 * What the page begins with. It is small, so that whoever must sign in is on their way at once, and a code is exchanged while
 * the application is still being loaded.
 */
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/pages.css";
import "./styles/connections.css";
import { session } from "./auth/session";
import { config } from "./config";

/** Does the address show something without anybody signed in? */
const isOpen = (path: string) => path === "/reference" || path.startsWith("/reference/");

const { origin, pathname, search, hash } = window.location;

async function begin(): Promise<void> {
  // Signing in only leads back to the console's own address, so it has to be the one that is open.
  if (import.meta.env.PROD && origin !== new URL(config.consoleUrl).origin) {
    window.location.replace(config.consoleUrl + pathname + search + hash);
    return;
  }
  if (pathname !== "/callback" && !isOpen(pathname)) {
    await session.signIn(pathname + search + hash);
    return;
  }
  const loading = import("./app/start");
  if (pathname !== "/callback") {
    (await loading).show();
    return;
  }
  const { returnTo } = session;
  const completing = session.complete(search);
  // It is looked at below; until then nobody need hear of it.
  completing.catch(() => undefined);
  const app = await loading;
  app.prepare(returnTo);
  try {
    const address = await completing;
    if (address !== null) {
      app.show(address);
      return;
    }
    window.close();
    app.showClosing();
  } catch (error) {
    app.showFailure(error instanceof Error ? error.message : "Something failed.");
  }
}

begin().catch(() => {
  document.getElementById("root")!.textContent = "The console could not be loaded. Load the page again.";
});
