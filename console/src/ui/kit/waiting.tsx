/** Grey bars where a list is about to be. */
export function Waiting({ rows = 4 }: { rows?: number }) {
  return (
    <div className="waiting" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <span key={row} />
      ))}
    </div>
  );
}
