// The verifiers of the Node world, for check/judges/webhooks: each line that comes in is a delivery and a secret, each
// line that goes out says what every library thinks of it.
const readline = require("node:readline");

const libraries = {
  "standardwebhooks (npm)": require("standardwebhooks"),
  "svix (npm)": require("svix"),
};

function verdict({ Webhook, WebhookVerificationError }, { secret, headers, body }) {
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers);
    return { accepted: true, meant: true, why: "accepted" };
  } catch (problem) {
    return { accepted: false, meant: problem instanceof WebhookVerificationError, why: String(problem) };
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const delivery = JSON.parse(line);
  const verdicts = Object.entries(libraries).map(([name, library]) => [name, verdict(library, delivery)]);
  console.log(JSON.stringify(Object.fromEntries(verdicts)));
});
