const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON with lines and indents. Its numbers stay as they were written, which they would not if they were read. */
export function indented(json: string): string {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  let before = "";
  const parts = (json.match(TOKEN) ?? []).map((token) => {
    const opened = before === "{" || before === "[";
    before = token;
    if (token === "}" || token === "]") {
      depth -= 1;
      return opened ? token : line() + token;
    }
    const start = opened ? line() : "";
    if (token === "{" || token === "[") depth += 1;
    if (token === ",") return token + line();
    return start + (token === ":" ? ": " : token);
  });
  return parts.join("");
}
