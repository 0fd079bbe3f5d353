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
  /** What this installation is called, and where it has help and terms; an address is empty where there is none. */
  brand: {
    name: read("brand-name", "Portico"),
    supportUrl: read("support-url", ""),
    termsUrl: read("terms-url", ""),
  },
};

/** What the browser calls a page of that name. */
export function entitle(...names: string[]) {
  document.title = [...names, config.brand.name].join(" · ");
}
