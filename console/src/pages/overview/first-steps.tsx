/** Three steps for an account that is new. Each is done when it really happened, and all go when the last one is. */
import { Link } from "@tanstack/react-router";
import { useEndpoints, useInbox, useKeys } from "../../api/queries";
import { curl, TOKEN } from "../../ui/curl";
import { Icon } from "../../ui/icons";
import { Code, Section } from "../../ui/kit";

export function FirstSteps() {
  const tokens = useKeys("tokens");
  const keys = useKeys("keys");
  const endpoints = useEndpoints();
  const inbox = useInbox();
  if (!tokens.data || !keys.data || !endpoints.data) return null;
  const all = [...tokens.data, ...keys.data];
  const made = all.length > 0;
  const called = all.some(({ last_used_at }) => last_used_at !== "");
  const delivered = endpoints.data.some(({ last_delivery_status }) => last_delivery_status === "delivered");
  const steps = [
    {
      done: made,
      title: "Make a token",
      text: "It is what your program shows with every call. You choose what it may do.",
      action: (
        <Link to="/keys" search={{ tab: "tokens", new: "token" } as never} className="button primary small">
          Make a token
        </Link>
      ),
    },
    {
      done: called,
      title: "Make the first call",
      text: "Paste this into a terminal, with your token in its place. The page notices it by itself.",
      action: <Code label="First call" text={curl("GET", "/v1/me", TOKEN)} />,
    },
    {
      done: delivered,
      title: "Receive a webhook",
      text: inbox.data
        ? "Your test inbox is there. Send it a test event and see it verified."
        : "No server of your own is needed: the test inbox receives it, and says whether its signature is valid.",
      action: (
        <Link to="/webhooks/inbox" className="button primary small">
          {inbox.data ? "Open the test inbox" : "Make a test inbox"}
        </Link>
      ),
    },
  ];
  if (steps.every(({ done }) => done)) return null;
  const current = steps.findIndex(({ done }) => !done);
  return (
    <Section title="First steps" flush>
      <ol className="steps">
        {steps.map(({ done, title, text, action }, index) => (
          <li key={title} className={done ? "done" : undefined} aria-current={index === current ? "step" : undefined}>
            <span className="step-mark" aria-hidden="true">
              {done ? <Icon name="check" /> : index + 1}
            </span>
            <div>
              <h3>
                {title}
                {done && <span className="quiet"> done</span>}
              </h3>
              {!done && <p>{text}</p>}
              {index === current && action}
            </div>
          </li>
        ))}
      </ol>
    </Section>
  );
}
