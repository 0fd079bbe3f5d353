import { Link } from "@tanstack/react-router";
import { Button, Empty } from "../ui/kit";

export function NotFound() {
  return (
    <Empty
      title="There is no such page"
      action={
        <Link to="/" className="button primary">
          To the overview
        </Link>
      }
    >
      <p>The address may have been mistyped, or what it showed is gone.</p>
    </Empty>
  );
}

/** A page that failed: its file did not come, as after an update of the server, or it has a fault. */
export function PageError({ error }: { error: unknown }) {
  return (
    <Empty
      title="This page could not be shown"
      action={
        <Button look="primary" onClick={() => window.location.reload()}>
          Load it again
        </Button>
      }
    >
      <p>{error instanceof Error ? error.message : "Something failed."}</p>
    </Empty>
  );
}
