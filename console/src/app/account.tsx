import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext } from "react";
import { api, ask, type Schemas } from "../api/client";

export type Account = Schemas["Account"];
export type Role = "member" | "admin" | "owner";

const RANK: Record<string, number> = { member: 0, admin: 1, owner: 2 };

export interface Person {
  id: string;
  name: string;
  email: string;
  emailVerified: boolean;
}

export interface Workplace {
  person: Person;
  /** The account that is shown. */
  account: Account;
  /** All that the person belongs to, their own first. */
  accounts: Account[];
  /** Has the person at least that role here? */
  may: (least: Role) => boolean;
}

const Context = createContext<Workplace | null>(null);

/** Who is here, and in which account. */
export function useWorkplace(): Workplace {
  const workplace = useContext(Context);
  if (workplace === null) throw new Error("no account is shown here");
  return workplace;
}

export function WorkplaceProvider({ value, children }: { value: Workplace; children: ReactNode }) {
  return <Context value={value}>{children}</Context>;
}

export function useMe() {
  return useQuery({ queryKey: ["me"], queryFn: () => ask(api.GET("/v1/accounts/me")) });
}

/** The workplace for the account that the address names; the person's own where it names none. */
export function workplace(me: Schemas["AccountMe"], named: string | undefined): Workplace | null {
  const accounts = [...(me.account ? [me.account] : []), ...me.teams];
  const account = named === undefined ? accounts[0] : accounts.find(({ id }) => id === named);
  if (!account) return null;
  const rank = RANK[account.role] ?? 0;
  return {
    person: { id: me.user_id, name: me.name, email: me.email, emailVerified: me.email_verified },
    account,
    accounts,
    may: (least) => rank >= (RANK[least] ?? 0),
  };
}

/** The account as a query names it: left out for the person's own, which is what every call is for by itself. */
export function useOrg(): string {
  return useWorkplace().account.id;
}
