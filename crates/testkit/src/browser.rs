//! A browser without scripts: cookies, pages and forms.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::{Answer, TestApp, TestRequest};

/// The text that a page's markup stands for.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn encode(fields: &[(String, String)]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let part = |text: &str| {
        text.bytes()
            .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect::<String>()
    };
    fields.iter().map(|(name, value)| format!("{}={}", part(name), part(value))).collect::<Vec<_>>().join("&")
}

/// A form as it goes over the wire.
pub fn form(fields: &[(&str, &str)]) -> String {
    encode(&fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
}

/// A browser, with the cookies of one person.
pub struct Browser<'a> {
    app: &'a TestApp,
    /// The cookies, by name.
    pub cookies: BTreeMap<String, String>,
    /// Where it is; on this machine, if nothing is said.
    pub address: IpAddr,
}

impl<'a> Browser<'a> {
    /// A browser that was never here.
    pub fn new(app: &'a TestApp) -> Self {
        Self::at(app, "127.0.0.1")
    }

    /// The same, at another address.
    pub fn at(app: &'a TestApp, address: &str) -> Self {
        Self { app, cookies: BTreeMap::new(), address: address.parse().unwrap() }
    }

    /// Sends a request with the cookies, and takes those that come back.
    pub async fn send(&mut self, sent: TestRequest) -> Answer {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let sent = if cookies.is_empty() { sent } else { sent.header("cookie", &cookies.join("; ")) };
        let answer = self.app.send_auth(sent.at(self.address)).await;
        for cookie in answer.headers.get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            for flag in ["HttpOnly", "Secure", "SameSite=Lax", "Path=/"] {
                assert!(cookie.contains(flag), "{cookie}");
            }
            assert!(name.starts_with("__Host-") && !cookie.contains("Domain"), "{cookie}");
            if cookie.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }

    /// Looks at a page.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(TestRequest::new("GET", path)).await
    }

    /// Posts a form as it is.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send(TestRequest::new("POST", path).form(&form(fields))).await
    }

    /// Fills the page's form that leads to `action`, and sends it.
    pub async fn submit(&mut self, page: &Answer, action: &str, fields: &[(&str, &str)]) -> Answer {
        let hidden =
            page.hidden(action).into_iter().filter(|(name, _)| fields.iter().all(|(own, _)| own != name));
        let own = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let fields: Vec<_> = hidden.chain(own).collect();
        self.send(TestRequest::new("POST", action).form(&encode(&fields))).await
    }

    /// Goes where the answer leads, as long as that is here.
    pub async fn follow(&mut self, mut answer: Answer) -> Answer {
        while answer.status == 303 && answer.header("location").starts_with('/') {
            let to = answer.header("location").to_owned();
            answer = self.get(&to).await;
        }
        answer
    }

    /// Signs in with a password; returns the answer.
    pub async fn sign_in(&mut self, email: &str, password: &str) -> Answer {
        let page = self.get("/signin").await;
        self.submit(&page, "/signin", &[("email", email), ("password", password)]).await
    }
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What the page says went wrong; empty when nothing did.
    pub fn alert(&self) -> String {
        let text = self.text();
        let alert = text.split("role=\"alert\">").nth(1).and_then(|rest| rest.split('<').next());
        unescape(alert.unwrap_or_default())
    }

    /// The fields of the page's form that leads to `action` that need no typing: hidden ones, and the first choices.
    #[track_caller]
    pub fn hidden(&self, action: &str) -> Vec<(String, String)> {
        let text = self.text();
        let form = text.split("<form").find(|form| form.contains(&format!("action=\"{action}\"")));
        let form = form.unwrap_or_else(|| panic!("no form leads to {action} in {text}"));
        let form = form.split("</form>").next().unwrap();
        let value = |text: &str| unescape(text.split('"').next().unwrap());
        let hidden = form.split("<input type=\"hidden\" name=\"").skip(1).map(|field| {
            let (name, rest) = field.split_once("\" value=\"").unwrap();
            (unescape(name), value(rest))
        });
        let chosen = form.split("<select").skip(1).map(|select| {
            let name = select.split("name=\"").nth(1).unwrap();
            (value(name), value(select.split("<option value=\"").nth(1).unwrap()))
        });
        hidden.chain(chosen).collect()
    }

    /// The parameter of the address that the answer leads to.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.header("location").split_once('?')?;
        let pairs = portico_engine::input::parse_form(query).ok()?;
        pairs.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}
