// A line for each thing proved; one that fails ends its scenario, not the others.
let last = "nothing yet";

exports.proved = (what, holds, seen) => {
  if (!holds) throw new Error(`${what}${seen === undefined ? "" : ` (saw ${JSON.stringify(seen)})`}`);
  console.log(`ok      ${what}`);
  last = what;
};

exports.scenario = async (name, run) => {
  last = "nothing yet";
  try {
    return await run();
  } catch (problem) {
    // What a library says beside its message is often the answer that it did not like.
    const cause = problem.cause === undefined ? "" : `, ${describe(problem.cause)}`;
    const code = problem.code ? ` ${problem.code}` : "";
    console.log(`FAILED  ${name}: ${problem.name}${code}: ${problem.message}${cause} (last proved: ${last})`);
    process.exitCode = 1;
  }
};

function describe(cause) {
  if (cause instanceof Response) return `${cause.status} from ${cause.url}`;
  if (cause instanceof URLSearchParams) return cause.toString();
  return cause instanceof Error ? cause.message : JSON.stringify(cause);
}
