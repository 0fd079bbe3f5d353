import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

export type Search = Record<string, string | undefined>;

/** What the address says; the address is where a page keeps its state. */
export function useQueryParams(): Search {
  return useSearch({ strict: false }) as Search;
}

/** Changes parts of the address; `undefined` removes one. */
export function useSetParams(): (change: Search, push?: boolean) => void {
  const navigate = useNavigate();
  return useCallback(
    (change, push = false) => {
      void navigate({
        to: ".",
        search: ((before: Search) => ({ ...before, ...change })) as never,
        replace: !push,
        resetScroll: false,
      });
    },
    [navigate],
  );
}
