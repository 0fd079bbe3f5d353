import { session, useSession } from "../../auth/session";
import { Button } from "./button";
import { Note } from "./note";

/** The session has ended: how to go on without losing anything. */
export function SessionNote() {
  if (useSession() !== "ended") return null;
  return (
    <Note
      tone="warn"
      action={
        <Button small onClick={() => void session.signInBeside()}>
          Sign in again
        </Button>
      }
    >
      Your session has ended. Nothing that you typed is lost: sign in again, and go on here.
    </Note>
  );
}
