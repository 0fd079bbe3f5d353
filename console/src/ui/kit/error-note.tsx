import { asRefusal } from "../../api/problem";
import { Icon } from "../icons";
import { Button } from "./button";
import { Id } from "./id";

/** What went wrong, in a sentence, with the request's id and what to do. It stays until it is mended. */
export function ErrorNote({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  const refusal = asRefusal(error);
  return (
    <div className="note bad" role="alert">
      <Icon name="warn" />
      <div>
        <p>{refusal.message}</p>
        {refusal.requestId && (
          <p className="quiet">
            Request <Id id={refusal.requestId} />
          </p>
        )}
      </div>
      {retry && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}
