import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import type { Page } from "../pages/registry";

const TOGETHER_MS = 1200;

/** `/` and Ctrl-K open the palette; `g` and a letter lead to a page. Nobody who types is disturbed. */
export function useHotkeys(pages: readonly Page[], openPalette: () => void) {
  const navigate = useNavigate();
  useEffect(() => {
    let began = 0;
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      const typing = (event.target as Element).closest("input, textarea, select, [contenteditable], [role=dialog]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") {
        event.preventDefault();
        openPalette();
      } else if (event.key === "g") {
        began = event.timeStamp;
      } else if (event.timeStamp - began < TOGETHER_MS) {
        began = 0;
        const page = pages.find(({ letter }) => letter === event.key);
        if (page) void navigate({ to: page.path });
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [navigate, openPalette, pages]);
}
