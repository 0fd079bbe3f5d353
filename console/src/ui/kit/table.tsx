import { type ReactNode, useRef } from "react";

export interface Column<T> {
  name: string;
  cell: (item: T) => ReactNode;
  align?: "right";
  /** Hidden where the label says nothing that the cell does not. */
  bare?: boolean;
}

/** A table that becomes cards where it is narrow. Arrows go through rows that open. */
export function Table<T>({
  label,
  columns,
  items,
  id,
  onOpen,
  opened,
}: {
  label: string;
  columns: Column<T>[];
  items: readonly T[];
  id: (item: T) => string;
  onOpen?: (item: T) => void;
  opened?: string | undefined;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const move = (from: Element, by: 1 | -1) => {
    const rows = [...(body.current?.querySelectorAll<HTMLElement>("tr[tabindex]") ?? [])];
    rows[rows.indexOf(from as HTMLElement) + by]?.focus();
  };
  return (
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.name} scope="col" className={column.align}>
              {column.bare ? <span className="sr">{column.name}</span> : column.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {items.map((item) => (
          <tr
            key={id(item)}
            className={opened === id(item) ? "opened" : undefined}
            {...(onOpen && {
              tabIndex: 0,
              onClick: (event) => {
                if (!(event.target as Element).closest("a, button, input, select")) onOpen(item);
              },
              onKeyDown: (event) => {
                if (event.target !== event.currentTarget) return;
                if (event.key === "Enter") onOpen(item);
                else if (event.key === "ArrowDown") move(event.currentTarget, 1);
                else if (event.key === "ArrowUp") move(event.currentTarget, -1);
                else return;
                event.preventDefault();
              },
            })}
          >
            {columns.map((column) => (
              <td key={column.name} data-label={column.bare ? undefined : column.name} className={column.align}>
                {column.cell(item)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
