/** What the reference shows: what was built in at once, and what the running server says as soon as it is there. */
import { useQuery } from "@tanstack/react-query";
import { made, openApi, openAsyncApi } from "../api/live";
import { BUILT_IN as REFERENCE, withServices } from "./document";
import { BUILT_IN as EVENTS, eventsOf } from "./events";
import { BUILT_IN as STREAMS, streamsOf } from "./streams";

const referenceOf = made(withServices);
const typesOf = made(eventsOf);
const channelsOf = made(streamsOf);

/** The operations. While the server has not said which there are, one that is not among them may yet come. */
export function useReference() {
  const { data, isPending } = useQuery({ ...openApi, select: referenceOf });
  return { ...(data ?? REFERENCE), isPending };
}

/** The event types. */
export function useEvents() {
  const { data, isPending } = useQuery({ ...openAsyncApi, select: typesOf });
  return { events: data ?? EVENTS, isPending };
}

/** The streams. */
export const useStreams = () => useQuery({ ...openAsyncApi, select: channelsOf }).data ?? STREAMS;
