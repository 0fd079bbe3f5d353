/** What the API says in one word, in a sentence. */
export const OUTCOMES: Record<string, string> = {
  delivered: "Delivered",
  status: "Refused by its answer",
  timeout: "No answer in time",
  connection: "Connection failed",
  tls: "Certificate not accepted",
  dns: "Name not found",
  blocked_address: "Address not allowed",
  redirect: "Redirect, which is not followed",
};

/** Why an attempt did not succeed, and what helps. */
export function outcomeHelp(outcome: string, status: number): string {
  switch (outcome) {
    case "delivered":
      return `The receiver answered ${status}.`;
    case "status":
      return `The receiver answered ${status}. Only an answer from 200 to 299 counts as received.`;
    case "timeout":
      return "The receiver did not answer within 15 seconds. Answer first, and do the work after.";
    case "connection":
      return "Nothing listens there, or the connection was cut.";
    case "tls":
      return "The receiver's certificate is not one that is trusted, or is for another name.";
    case "dns":
      return "The name of the address has no public entry.";
    case "blocked_address":
      return "The address leads into a private network, which deliveries never reach.";
    case "redirect":
      return `The receiver answered ${status}, a redirect. Use the address that it leads to.`;
    default:
      return "";
  }
}

export const VERDICTS: Record<string, { tone: "good" | "bad" | "warn"; help: string }> = {
  valid: { tone: "good", help: "The signature is that of an endpoint of this account, and the time is right." },
  invalid: { tone: "bad", help: "It was signed, but by no secret of an endpoint that points here, or too long ago." },
  unsigned: { tone: "warn", help: "It carried no webhook-signature header." },
  no_endpoint: { tone: "warn", help: "It was signed, but no endpoint of this account points here." },
};
