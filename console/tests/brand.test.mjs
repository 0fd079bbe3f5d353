// The brand of an installation: its name, logo, colour and links, on the sign-in pages, in the console and in the reference.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, Server, Visitor } from "./harness.mjs";

const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><script>document.title = "broken"</script><circle cx="4" cy="4" r="4" fill="#0b6e4f"/></svg>`;
const BRAND = `[brand]
name = "Acme & Söhne"
logo = "FOLDER/logo.svg"
accent = "#0b6e4f"
support_url = "https://acme.example/help"
terms_url = "https://acme.example/terms"
`;

let server;

before(async () => {
  server = await Server.start({ more: BRAND, files: { "logo.svg": LOGO } });
  await server.person("ada@example.com", "Ada Lovelace");
});
after(async () => {
  await server?.end();
  await closeBrowser();
});

/** The contrast of two colours as the browser computes them, by WCAG's formula. */
function contrast(one, other) {
  const luminance = (colour) => {
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

const coloursOf = (locator) =>
  locator.evaluate((element) => [getComputedStyle(element).color, getComputedStyle(element).backgroundColor]);

for (const scheme of ["light", "dark"]) {
  test(`every page is the brand's in ${scheme}`, async () => {
    const ada = await Visitor.open({ scheme });
    const { page } = ada;
    await page.goto(server.console);
    await page.getByLabel("E-mail", { exact: true }).waitFor();
    assert.equal(await page.title(), "Sign in · Acme & Söhne");
    await page.getByRole("banner").getByText("Acme & Söhne").waitFor();
    assert.equal(await page.getByRole("link", { name: "Terms" }).getAttribute("href"), "https://acme.example/terms");
    const [ink, accent] = await coloursOf(page.getByRole("button", { name: "Sign in", exact: true }));
    if (scheme === "light") assert.equal(accent, "rgb(11, 110, 79)");
    assert.ok(contrast(ink, accent) >= 4.5, `${ink} on ${accent}`);
    await ada.checkAccess("sign-in");
    await ada.signIn(server, "/keys");
    assert.match(await page.title(), /^Keys and tokens · .* · Acme & Söhne$/);
    await page.getByRole("complementary").getByText("Acme & Söhne").waitFor();
    assert.equal(await page.getByRole("link", { name: "Help" }).getAttribute("href"), "https://acme.example/help");
    const current = await coloursOf(page.locator(".nav-item[aria-current]"));
    assert.ok(contrast(...current) >= 4.5, current.join(" on "));
    const [written, button] = await coloursOf(page.getByRole("button", { name: "Make a key" }).first());
    assert.equal(button, accent);
    assert.ok(contrast(written, button) >= 4.5, `${written} on ${button}`);
    await ada.checkAccess("the console");
    await ada.go("/reference");
    await page.waitForFunction(() => document.title === "Reference · Acme & Söhne");
    await ada.checkAccess("the reference");
    await ada.leave();
  });
}

test("the logo is a picture, whatever is in it", async () => {
  for (const address of [`${server.console}/brand/logo`, `${server.auth}/assets/logo`]) {
    const answer = await fetch(address);
    assert.equal(answer.headers.get("content-type"), "image/svg+xml");
    assert.equal(await answer.text(), LOGO);
    const again = await fetch(address, { headers: { "if-none-match": answer.headers.get("etag") } });
    assert.equal(again.status, 304);
    // Opened by itself, it is a document, and its script must not run.
    const somebody = await Visitor.open();
    somebody.provoke(/script|sandbox|Content Security Policy/i);
    await somebody.page.goto(address);
    assert.notEqual(await somebody.page.title(), "broken");
    await somebody.leave();
  }
});
