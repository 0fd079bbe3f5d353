import { Dialog as Base } from "@base-ui/react/dialog";
import type { ReactNode } from "react";
import { Icon } from "../icons";

/** A window over the page. `keep` is for what must not be lost by a stray click. */
export function Dialog({
  open,
  onClose,
  title,
  children,
  keep = false,
  wide = false,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  keep?: boolean;
  wide?: boolean;
}) {
  return (
    <Base.Root
      open={open}
      disablePointerDismissal={keep}
      onOpenChange={(next, details) => {
        if (next || (keep && details.reason === "escape-key")) return;
        onClose();
      }}
    >
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={`dialog${wide ? " wide" : ""}`}>
          <div className="dialog-head">
            <Base.Title>{title}</Base.Title>
            {!keep && (
              <Base.Close className="button quiet small" aria-label="Close">
                <Icon name="close" />
              </Base.Close>
            )}
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
