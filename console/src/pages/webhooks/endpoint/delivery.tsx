/** One delivery, with its attempts. */
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ask, idempotencyKey, type Schemas } from "../../../api/client";
import { useWorkplace } from "../../../app/account";
import { curl, TOKEN } from "../../../ui/curl";
import { milliseconds } from "../../../ui/format";
import { Badge, Button, Code, ErrorNote, Facts, Id, Json, Panel, Time } from "../../../ui/kit";
import { refresh } from "../refresh";
import { OUTCOMES, outcomeHelp } from "../words";

export type Delivery = Schemas["Delivery"];
export type Status = Delivery["status"];

export const TONES: Record<Status, "good" | "warn" | "bad" | "accent"> = {
  delivered: "good",
  pending: "accent",
  failed: "warn",
  abandoned: "bad",
};

export function DeliveryPanel({ of, onClose }: { of: Delivery; onClose: () => void }) {
  const { may } = useWorkplace();
  const [key] = useState(idempotencyKey);
  const retry = useMutation({
    mutationFn: () =>
      ask(
        api.POST("/v1/webhooks/deliveries/{delivery_id}/retry", {
          params: { path: { delivery_id: of.id }, header: { "Idempotency-Key": `${key}-${of.attempts.length}` } },
          body: {},
        }),
      ),
    onSuccess: refresh,
  });
  return (
    <Panel open onClose={onClose} title={of.event_type}>
      <Facts
        items={[
          ["State", <Badge key="state" tone={TONES[of.status]}>{of.status}</Badge>],
          ["Delivery", <Id key="id" id={of.id} whole />],
          ["Event", <Id key="event" id={of.event_id} whole />],
          ["Made", <Time key="made" at={of.created_at} />],
          ["Next attempt", <Time key="next" at={of.next_attempt_at} none="none" />],
        ]}
      />
      <h3>Attempts</h3>
      {of.attempts.length === 0 ? (
        <p className="quiet">None yet.</p>
      ) : (
        <ol className="timeline">
          {of.attempts.map((attempt) => (
            <li key={attempt.id} className={attempt.outcome === "delivered" ? "good" : "bad"}>
              <p>
                <strong>
                  {attempt.number}. {OUTCOMES[attempt.outcome] ?? attempt.outcome}
                  {attempt.status_code > 0 && ` (${attempt.status_code})`}
                </strong>{" "}
                <span className="quiet">
                  <Time at={attempt.at} />, {milliseconds(attempt.duration_ms)}
                </span>
              </p>
              <p className="quiet">{outcomeHelp(attempt.outcome, attempt.status_code)}</p>
              {attempt.next_retry_at && (
                <p className="quiet">
                  The next was planned for <Time at={attempt.next_retry_at} />.
                </p>
              )}
            </li>
          ))}
        </ol>
      )}
      <ErrorNote error={retry.error} />
      <div className="actions">
        {may("admin") && (
          <Button small look="primary" busy={retry.isPending} onClick={() => retry.mutate()}>
            {of.status === "pending" ? "Try now" : "Send again"}
          </Button>
        )}
        <Link to="/events" search={{ open: of.event_id } as never} className="button small">
          The event
        </Link>
      </div>
      <h3>As the API has it</h3>
      <Code label="Send again with curl" text={curl("POST", `/v1/webhooks/deliveries/${of.id}/retry`, TOKEN)} />
      <Json value={of} label="Record" />
    </Panel>
  );
}
