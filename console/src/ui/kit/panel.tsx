import { Dialog as Base } from "@base-ui/react/dialog";
import type { ReactNode } from "react";
import { Icon } from "../icons";

/** What one row is, at the side of the list, or from below where there is no side. */
export function Panel({
  open,
  onClose,
  title,
  children,
}: {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
}) {
  return (
    <Base.Root open={open} modal={false} disablePointerDismissal onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Popup className="panel">
          <div className="dialog-head">
            <Base.Title>{title}</Base.Title>
            <Base.Close className="button quiet small" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </div>
          <div className="panel-body">{children}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
