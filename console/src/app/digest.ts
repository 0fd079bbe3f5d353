/** The operations, scopes and services of the account that is shown: the routes of its plan, and those for people alone. */
import { useQuery } from "@tanstack/react-query";
import { AREAS } from "../api/areas.gen";
import { authorized } from "../api/client";
import { digest } from "../api/digest";
import { BUILT_IN } from "../api/digest.gen";
import { documentAt, made } from "../api/live";
import type { ApiDocument } from "../api/openapi";
import { queries } from "../api/queries";
import { useOrg } from "./account";

const ofAccount = (org: string) => documentAt<ApiDocument>(`/v1/openapi.json?account=${org}`, authorized);

const digestOf = made((document: ApiDocument) => digest(document, AREAS));

/** Those of the platform at once, and those of services as soon as the server has told them. */
export const useDigest = () => useQuery({ ...ofAccount(useOrg()), select: digestOf }).data ?? BUILT_IN;

/** Asks the server while nobody waits. */
export const prefetchDigest = (org: string) => queries.prefetchQuery(ofAccount(org));
