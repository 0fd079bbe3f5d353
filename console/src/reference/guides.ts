/** The guides of docs/guides, turned into HTML when the console was built. */
interface Guide {
  title: string;
  html: string;
}

const loaders = import.meta.glob<{ default: Guide }>("../../../docs/guides/*.md");

/** In the order in which they are best read. */
export const GUIDES = [
  { slug: "first-call", title: "Your first call" },
  { slug: "keys-and-rotation", title: "Keys, and how to rotate them" },
  { slug: "verifying-webhooks", title: "Verifying webhooks" },
  { slug: "resuming-streams", title: "Streams, and how to resume them" },
  { slug: "errors-and-retries", title: "Errors and retries" },
  { slug: "oauth-for-an-app", title: "OAuth for an app" },
  { slug: "assistants", title: "Assistants" },
  { slug: "services", title: "Your own API behind Portico" },
] as const;

export async function loadGuide(slug: string): Promise<Guide | null> {
  const loader = loaders[`../../../docs/guides/${slug}.md`];
  return loader ? (await loader()).default : null;
}
