import { Badge } from "../../../ui/kit";
import { type Action, classOf, labelsOf } from "../words";

/** How strict an action is, in a word. */
export function Class({ of }: { of: Pick<Action, "class"> }) {
  const tone = of.class === "read" ? "plain" : of.class === "write_reversible" ? "accent" : "warn";
  return <Badge tone={tone}>{classOf(of.class)?.title.toLowerCase() ?? of.class}</Badge>;
}

/** What an action does, and what that means for whoever may call it, in a sentence. */
export function About({ of }: { of: Action }) {
  const labels = labelsOf([of]);
  return (
    <>
      {of.description}
      {labels.length > 0 && ` It ${listed(labels)}.`}
    </>
  );
}

/** "one, two and three". */
export const listed = (words: readonly string[]) => [words.slice(0, -1).join(", "), words.at(-1)].filter(Boolean).join(" and ");
