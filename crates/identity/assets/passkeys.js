// Passkeys: the one part of these pages that needs a script. Everything is addressed to this site alone.
"use strict";

const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const encode = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

const post = async (path, body, type) => {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": type }, body });
  const text = await answer.text();
  let read;
  try {
    read = JSON.parse(text);
  } catch {
    read = {};
  }
  if (!answer.ok) throw new Error(read.error || "That did not work. Load the page again and retry.");
  return read;
};
const postJson = (path, body) => post(path, JSON.stringify(body), "application/json");

const withIds = (list) => (list || []).map((each) => ({ ...each, id: decode(each.id) }));

const signIn = async (place) => {
  const csrf = place.dataset.csrf;
  const { options, state } = await postJson("/signin/passkey/begin", { csrf });
  const asked = options.publicKey;
  const found = await navigator.credentials.get({
    publicKey: { ...asked, challenge: decode(asked.challenge), allowCredentials: withIds(asked.allowCredentials) },
  });
  const response = {
    authenticatorData: encode(found.response.authenticatorData),
    clientDataJSON: encode(found.response.clientDataJSON),
    signature: encode(found.response.signature),
    userHandle: found.response.userHandle ? encode(found.response.userHandle) : null,
  };
  const credential = { id: found.id, rawId: encode(found.rawId), type: found.type, extensions: {}, response };
  await postJson("/signin/passkey", { csrf, state, credential });
  window.location.assign(place.dataset.returnTo);
};

const add = async (place, form) => {
  const csrf = place.dataset.csrf;
  const fields = new URLSearchParams({ csrf, current_password: form.elements.current_password.value });
  const begun = await post("/settings/passkeys/begin", fields.toString(), "application/x-www-form-urlencoded");
  const asked = begun.options.publicKey;
  const made = await navigator.credentials.create({
    publicKey: {
      ...asked,
      challenge: decode(asked.challenge),
      user: { ...asked.user, id: decode(asked.user.id) },
      excludeCredentials: withIds(asked.excludeCredentials),
    },
  });
  const response = {
    attestationObject: encode(made.response.attestationObject),
    clientDataJSON: encode(made.response.clientDataJSON),
    transports: made.response.getTransports ? made.response.getTransports() : [],
  };
  const credential = { id: made.id, rawId: encode(made.rawId), type: made.type, extensions: {}, response };
  await postJson("/settings/passkeys", { csrf, state: begun.state, credential, name: form.elements.name.value });
  window.location.reload();
};

const guarded = (place, act) => async (event) => {
  event.preventDefault();
  const alert = place.querySelector("[role=alert]");
  alert.hidden = true;
  try {
    await act(event);
  } catch (error) {
    // Whoever closes the browser's own window has changed their mind; there is nothing to tell them.
    if (error.name === "NotAllowedError" || error.name === "AbortError") return;
    alert.textContent = error.message;
    alert.hidden = false;
  }
};

if (window.PublicKeyCredential) {
  for (const place of document.querySelectorAll("[data-passkey]")) {
    place.hidden = false;
    if (place.dataset.passkey === "signin") {
      place.querySelector("button").addEventListener("click", guarded(place, () => signIn(place)));
    } else {
      const form = place.querySelector("form");
      form.addEventListener("submit", guarded(place, () => add(place, form)));
    }
  }
}
