import { Button } from "./button";

/** The part of `useList` that is about what is further down. */
interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

/** The foot of a list that goes on. */
export function More({ list }: { list: Pages }) {
  if (!list.hasNextPage) return null;
  return (
    <div className="more">
      <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
        Older ones
      </Button>
    </div>
  );
}
