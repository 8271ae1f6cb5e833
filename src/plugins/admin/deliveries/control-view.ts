import { countOf } from "../../../core/base/count-of.ts";
import type { ControlCounts, ControlStatus, ControlSystem } from "../../../core/delivery/control-system.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { ServiceSchema } from "../answers/service.ts";
import { withoutSecrets } from "../server/configuration.ts";
import { formatCount } from "../views/format.ts";

type ControlSystemView = NonNullable<AnswerOf<typeof ServiceSchema>["control_system"]>;

/** The state of deliveries, for cards and alerts. */
export async function readControlView(control: ControlSystem): Promise<ControlSystemView> {
  const counts = await control.counts();
  return toView(control.status(), counts);
}

function toView(status: ControlStatus, counts: ControlCounts): ControlSystemView {
  const troubled = status.targets.filter((target) => target.state !== "ok");
  const dead =
    counts.dead > 0
      ? `${countOf(counts.dead, "event")} could not be delivered and ${counts.dead === 1 ? "is a dead letter" : "are dead letters"}.`
      : undefined;
  const isLocal = status.mode === "local";
  // Dead letters may be those of webhooks, which need no control system.
  const state = dead || (!isLocal && troubled.length > 0) ? "degraded" : isLocal ? "local" : "healthy";
  return {
    status: state,
    label: state === "local" ? "No control system" : undefined,
    alert: dead,
    facts: [
      {
        name: "Control system",
        value: status.api_url ? withoutSecrets(status.api_url) : "none",
      },
      ...(status.workspace_id ? [{ name: "Workspace", value: status.workspace_id }] : []),
      { name: "Delivered", value: formatCount(counts.delivered) },
      { name: "Waiting", value: formatCount(counts.waiting) },
      { name: "Dead letters", value: formatCount(counts.dead), tone: counts.dead > 0 ? "bad" : "" },
      ...(counts.dropped > 0 ? [{ name: "Dropped", value: formatCount(counts.dropped), tone: "bad" }] : []),
      ...troubled.map((target) => ({
        name: target.name,
        value: `${target.state}: ${target.last_error ?? "no response"}`,
        tone: "warn",
      })),
    ],
  };
}
