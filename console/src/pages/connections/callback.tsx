/** Where a provider sends people back to. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { asRefusal } from "../../api/problem";
import { useWorkplace } from "../../app/account";
import { Empty, ErrorNote, Note, PageHead, Waiting } from "../../ui/kit";
import { useQueryParams, useSetParams } from "../../ui/url";
import { Advice } from "./advice";
import { refresh } from "./refresh";
import { beganIn, complete } from "./sign-in";
import { whyNoSignIn } from "./words";

/** What the provider brought. The state alone stays in the address: it is used up, and leads whoever loads the page again to the outcome. */
function useBrought() {
  const { state = "", code = "", error = "" } = useQueryParams();
  const setParams = useSetParams();
  const [brought] = useState({ state, code, error });
  useEffect(() => setParams({ code: undefined, error: undefined }), [setParams]);
  return brought;
}

/** The address of that account, which is not named where it is the person's own. */
function useSearchOf() {
  const { accounts } = useWorkplace();
  return (id: string | undefined) => ({ account: id === accounts[0]?.id ? undefined : id }) as never;
}

export default function Callback() {
  const { account } = useWorkplace();
  const navigate = useNavigate();
  const searchOf = useSearchOf();
  const brought = useBrought();
  const done = useQuery({
    queryKey: ["sign-in", brought.state],
    queryFn: () => complete(account.id, brought),
    enabled: brought.state !== "",
    staleTime: Number.POSITIVE_INFINITY,
  });
  const connection = done.data?.connection;
  useEffect(() => {
    if (!connection) return;
    refresh();
    // In place of this page, so that the way back does not lead to it.
    void navigate({
      to: "/connections/$connection",
      params: { connection: connection.id } as never,
      search: searchOf(connection.account_id),
      replace: true,
    });
    // Once for each connection.
  }, [connection]);
  const back = (
    <Link to="/connections" search={searchOf(beganIn(brought.state) ?? account.id)} className="button primary">
      To the connections
    </Link>
  );
  if (brought.state === "" || done.data === null) {
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
