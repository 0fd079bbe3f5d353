/** Where a provider sends people back to. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useWorkplace } from "../../app/account";
import { Empty, ErrorNote, PageHead, Waiting } from "../../ui/kit";
import { useQueryParams } from "../../ui/url";
import { Advice } from "./advice";
import { refresh } from "./refresh";
import { complete } from "./sign-in";

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
  useEffect(() => {
    if (!done.data) return;
    refresh();
    const { id, account_id } = done.data;
    const isOwn = accounts[0]?.id === account_id;
    const search = { account: isOwn ? undefined : account_id };
    // In place of this page, so that neither the code nor the way back to it stays in the history.
    void navigate({ to: "/connections/$connection", params: { connection: id } as never, search: search as never, replace: true });
  }, [done.data, accounts, navigate]);
  const again = (
    <Link to="/connections" className="button primary">
      To the connections
    </Link>
  );
  if (!isWhole) {
    return (
      <Empty title="There is nothing to complete" action={again}>
        <p>Providers send people back here after a sign-in. This address holds neither a code nor an error of one.</p>
      </Empty>
    );
  }
  return (
    <>
      <PageHead title="Connecting" about="What the provider sent is being exchanged for a credential." />
      {done.error ? (
        <>
          <ErrorNote error={done.error} />
          <Advice error={done.error} />
          <div className="actions">{again}</div>
        </>
      ) : (
        <Waiting rows={3} />
      )}
    </>
  );
}
