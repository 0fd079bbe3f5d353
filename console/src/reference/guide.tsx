import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { NotFound } from "../app/fallbacks";
import { config, entitle } from "../config";
import { ErrorNote, Waiting } from "../ui/kit";
import { loadGuide } from "./guides";

/** Guides name this platform's own addresses in this way. */
const own = (html: string) => html.replaceAll("{base_url}", config.baseUrl).replaceAll("{auth_url}", config.authUrl).replaceAll("{console_url}", config.consoleUrl);

export default function GuidePage() {
  const { guide = "" } = useParams({ strict: false }) as { guide?: string };
  const found = useQuery({ queryKey: ["guide", guide], staleTime: Number.POSITIVE_INFINITY, queryFn: () => loadGuide(guide) });
  useEffect(() => {
    if (found.data) entitle(found.data.title);
  }, [found.data]);
  if (found.error) return <ErrorNote error={found.error} />;
  if (found.data === undefined) return <Waiting rows={6} />;
  if (found.data === null) return <NotFound />;
  return (
    <article className="prose">
      <h1 tabIndex={-1}>{found.data.title}</h1>
      {/* The HTML was made from our own guides when the console was built. */}
      <div dangerouslySetInnerHTML={{ __html: own(found.data.html) }} />
    </article>
  );
}
