/** Where a provider sends people back to. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { asRefusal } from "../../api/problem";
import { useWorkplace } from "../../app/account";
import { Empty, ErrorNote, Note, PageHead, Waiting } from "../../ui/kit";
import { useQueryParams } from "../../ui/url";
import { Advice } from "./advice";
import { refresh } from "./refresh";
import { complete } from "./sign-in";
import { whyNoSignIn } from "./words";

export default function Callback() {
  const { account, accounts } = useWorkplace();
  const navigate = useNavigate();
  const { state = "", code = "", error = "" } = useQueryParams();
  const [brought] = useState({ state, code, error });
  const isWhole = brought.state !== "" && (brought.code !== "" || brought.error !== "");
  const done = useQuery({
    queryKey: ["sign-in", brought.state],
    queryFn: () => complete(account.id, brought),
    enabled: isWhole,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const connection = done.data?.connection;
  useEffect(() => {
    if (!connection) return;
    refresh();
    const { id, account_id } = connection;
    const isOwn = accounts[0]?.id === account_id;
    const search = { account: isOwn ? undefined : account_id };
    // In place of this page, so that neither the code nor the way back to it stays in the history.
    void navigate({ to: "/connections/$connection", params: { connection: id } as never, search: search as never, replace: true });
  }, [connection, accounts, navigate]);
  const back = (
    <Link to="/connections" className="button primary">
      To the connections
    </Link>
  );
  if (!isWhole) {
    return (
      <Empty title="There is nothing to complete" action={back}>
        <p>Providers send people back here after a sign-in. This address holds neither a code nor an error of one.</p>
      </Empty>
    );
  }
  const reason = done.data?.reason;
  if (done.error || reason) {
    return (
      <>
        <PageHead title="Not connected" about="The sign-in at the provider did not lead to a connection." />
        <ErrorNote error={done.error} {...(asRefusal(done.error).isOffline && { retry: () => void done.refetch() })} />
        {reason ? <Note tone="warn">{whyNoSignIn(reason)}</Note> : <Advice error={done.error} />}
        <div className="actions">{back}</div>
      </>
    );
  }
  return (
    <>
      <PageHead title="Connecting" about="What the provider sent is being exchanged for a credential." />
      <Waiting rows={3} />
    </>
  );
}
