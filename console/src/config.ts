/** What the server that serves this page says of itself. */
function read(name: string, otherwise: string): string {
  const value = document.querySelector<HTMLMetaElement>(`meta[name="portico:${name}"]`)?.content ?? "";
  // While developing, Vite serves the page, and nobody fills it in.
  return value === "" || value.startsWith("%") ? otherwise : value;
}

export const config = {
  /** The API. */
  baseUrl: read("base-url", "http://127.0.0.1:8080"),
  /** The identity provider. */
  authUrl: read("auth-url", "http://localhost:8081"),
  /** The console itself: where the identity provider sends people back to. */
  consoleUrl: read("console-url", "http://localhost:8082"),
};
