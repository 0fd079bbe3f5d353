//! The brand: what the configuration may say, and where it shows.

use std::fs;

use portico::Environment;
use portico::config::Config;
use portico::settings::Settings;
use portico_kernel::{Accent, Brand, Logo};
use portico_testkit::{Browser, Database, TestApp, TestAppOptions, TestRequest};

/// The configuration with this table, or why it is refused.
fn configured(table: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("portico.toml");
    fs::write(folder.path().join("logo.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    fs::write(folder.path().join("logo.gif"), b"GIF89a").unwrap();
    let table = table.replace("FOLDER", &folder.path().display().to_string());
    fs::write(&file, format!("[brand]\n{table}\n")).unwrap();
    Config::load(Settings { config: Some(file), ..Settings::default() }).map_err(|error| error.to_string())
}

#[test]
fn a_brand_is_checked_at_the_start() {
    let config =
        configured("name = \"Acme\"\naccent = \"#0b6e4f\"\nsupport_url = \"mailto:help@acme.example\"")
            .unwrap();
    let brand = &config.environment.brand;
    assert_eq!((brand.name.as_str(), brand.support_url.as_str()), ("Acme", "mailto:help@acme.example"));
    assert!(config.describe().contains("brand = \"Acme in #0b6e4f and #"), "{}", config.describe());
    assert_eq!(config.console_settings().brand.name, "Acme");
    let config = configured("logo = \"FOLDER/logo.png\"").unwrap();
    assert_eq!(config.environment.brand.logo.content_type, "image/png");
    assert!(configured("").unwrap().describe().contains("brand = \"Portico\""));
    for (table, message) in [
        ("name = \"\"", "brand.name must have 1 to 40 characters"),
        (
            "accent = \"#ffcc00\"",
            "brand.accent #ffcc00 is too bright to be read in the light scheme: its contrast with #",
        ),
        ("accent = \"blue\"", "brand.accent must be a colour such as #3a4fd0, not \"blue\""),
        (
            "accent = \"#0b6e4f\"\naccent_dark = \"#0b6e4f\"",
            "brand.accent_dark #0b6e4f is too dark to be read",
        ),
        ("accent_dark = \"#ffffff\"", "brand.accent_dark goes with brand.accent"),
        ("terms_url = \"javascript:alert(1)\"", "brand.terms_url must be an https, http or mailto address"),
        ("support_url = \"acme.example\"", "brand.support_url must be"),
        ("logo = \"FOLDER/logo.gif\"", "logo.gif is neither SVG nor PNG"),
        ("logo = \"FOLDER/none.svg\"", "none.svg: "),
        ("colour = \"#0b6e4f\"", "unknown field `colour`"),
    ] {
        let refusal = configured(table).unwrap_err();
        assert!(refusal.contains(message), "{refusal}");
    }
}

/// A logo that would do harm if a browser took it for a page.
const LOGO: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";

#[tokio::test]
async fn pages_are_called_and_look_as_the_brand_says() {
    let accent = Accent::new("#0b6e4f", None).unwrap();
    let logo = Logo::new(LOGO.as_bytes().to_vec()).unwrap();
    let brand = Brand {
        support_url: "https://acme.example/help?a=\"b".to_owned(),
        ..Brand::new("Acme & Söhne".to_owned(), Some(logo), Some(accent))
    };
    let environment = Environment { brand, ..Environment::default() };
    let app =
        TestApp::with(Database::Sqlite, TestAppOptions { environment, ..TestAppOptions::default() }).await;
    let page = Browser::new(&app).get("/signin").await;
    for part in [
        "<title>Sign in · Acme &amp; Söhne</title>",
        "<span class=\"brand\">Acme &amp; Söhne</span>",
        "<img class=\"mark\" src=\"/assets/logo\"",
        "href=\"/assets/brand.css\"",
        "<a href=\"https://acme.example/help?a=&quot;b\">Help</a>",
    ] {
        assert!(page.text().contains(part), "{part} in {}", page.text());
    }
    assert!(!page.text().contains("Portico") && !page.text().contains("Terms"));
    let style = app.send_auth(TestRequest::new("GET", "/assets/brand.css")).await;
    assert!(style.text().starts_with("html:root{--accent:#0b6e4f;"));

    let logo = app.send_auth(TestRequest::new("GET", "/assets/logo")).await;
    assert_eq!((logo.text().as_str(), logo.header("content-type")), (LOGO, "image/svg+xml"));
    assert_eq!(logo.header("x-content-type-options"), "nosniff");
    let policy = logo.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
    let again = TestRequest::new("GET", "/assets/logo").header("if-none-match", logo.header("etag"));
    assert_eq!(app.send_auth(again).await.status, 304);
    let resource = app.get("/.well-known/oauth-protected-resource/mcp").await.ok();
    assert_eq!(resource["resource_name"], "Acme & Söhne");
}
