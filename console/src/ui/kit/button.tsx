import type { ComponentProps } from "react";
import { Icon, type IconName } from "../icons";

export function Button({
  look = "plain",
  icon,
  busy = false,
  small = false,
  children,
  ...rest
}: ComponentProps<"button"> & { look?: "plain" | "primary" | "danger" | "quiet"; icon?: IconName; busy?: boolean; small?: boolean }) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${look}${small ? " small" : ""}${rest.className ? ` ${rest.className}` : ""}`}
      aria-busy={busy || undefined}
      disabled={rest.disabled || busy}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}
