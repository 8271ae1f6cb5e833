import type { DeploymentPlan, ResourceAction } from "../core/models/deployment.ts";
import { type FieldChange, fieldChanges } from "./spec-changes.ts";

/** A plan as a short table in Markdown, for a comment; `notes` are warnings. Text of the plan is never read as Markdown. */
export function planMarkdown(
  plan: DeploymentPlan,
  { changes, notes }: { readonly changes: boolean; readonly notes: readonly string[] },
): string {
  const place = [plan.region, plan.project_id && `project ${plan.project_id}`].filter(Boolean).join(", ");
  const changed = plan.actions.filter((action) => action.action_type !== "noop");
  const kept = plan.actions.length - changed.length;
  const facts = [
    plan.total_cost_estimate && `Cost: ${text(plan.total_cost_estimate)}`,
    changes && plan.estimated_duration && `Duration: ${text(plan.estimated_duration)}`,
    plan.current_status && `Now: ${text([plan.current_status, plan.current_url].filter(Boolean).join(", "))}`,
  ].filter(Boolean);
  const rows = changed.map((action) => `| ${cellsOf(action).join(" | ")} |`);
  return [
    `### Plan for ${code(plan.service_name)} on ${plan.platform} (${text(place)})`,
    "",
    ...(changes
      ? ["| Action | Resource | Name | Change |", "| --- | --- | --- | --- |", ...rows]
      : ["Nothing to do: everything is up to date."]),
    ...(changes && kept > 0 ? ["", `${kept} unchanged.`] : []),
    ...(facts.length > 0 ? ["", facts.join(" · ")] : []),
    ...(notes.length > 0 ? ["", ...notes.map((note) => `- ⚠️ ${text(note)}`)] : []),
  ].join("\n");
}

function cellsOf(action: ResourceAction): string[] {
  const details = [text([action.description, action.cost_estimate].filter(Boolean).join(", "))];
  return [
    `**${action.action_type.toUpperCase()}**`,
    action.resource_type.replace("_", " "),
    code(action.resource_name),
    [...details, ...fieldChanges(action).map(changeText)].filter(Boolean).join("<br>"),
  ];
}

function changeText({ field, from, to }: FieldChange): string {
  if (from === null) return code(`+ ${field}: ${to}`);
  if (to === null) return code(`- ${field}: ${from}`);
  return code(`${field}: ${from} → ${to}`);
}

/** As it is: no mention, link, tag or column. */
function code(value: string): string {
  return `\`${value.replaceAll("`", "'").replaceAll(/\s+/g, " ").replaceAll("|", "\\|")}\``;
}

function text(value: string): string {
  return value
    .replaceAll(/\s+/g, " ")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(/[\\`*_{}[\]#|~@]/g, (found) => `&#${found.charCodeAt(0)};`);
}
