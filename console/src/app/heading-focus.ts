import { type RefObject, useEffect, useRef } from "react";

/** Whoever came to a page by a link hears where they are: its heading takes the keyboard. The first page leaves it alone. */
export function useHeadingFocus(main: RefObject<HTMLElement | null>, pathname: string) {
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
  }, [main, pathname]);
}
