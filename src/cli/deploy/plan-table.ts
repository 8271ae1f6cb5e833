import type { DeploymentPlan, ResourceAction } from "../../core/models/deployment.ts";
import { type FieldChange, fieldChanges } from "../../deploy/spec-changes.ts";
import type { Paint } from "../paint.ts";
import { pad } from "./terminal.ts";

const COLOURS = { create: "green", update: "yellow", delete: "red", noop: "dim" } as const;

/** The plan as a table, ready to print; `where` is the machine or region. */
export function planTable(plan: DeploymentPlan, where: string, paint: Paint): string[] {
  const place = [where, plan.project_id && `project ${plan.project_id}`].filter(Boolean).join(", ");
  const rows = plan.actions.map((action) => [
    paint(COLOURS[action.action_type], action.action_type.toUpperCase()),
    action.resource_type.replace("_", " "),
    nameOf(action),
    [action.description, action.cost_estimate].filter(Boolean).join(", "),
  ]);
  const widths = [6, 1, 2].map((least, column) =>
    Math.max(least, ...plan.actions.map((action) => cells(action)[column]!.length)),
  );
  const lines = [paint("bold", `Plan for ${plan.service_name} on ${plan.platform} (${place})`), ""];
  plan.actions.forEach((action, index) => {
    const row = rows[index]!;
    const cellsOfRow = row.slice(0, 3).map((cell, column) => pad(cell, widths[column]!));
    lines.push(`  ${[...cellsOfRow, row[3]].join("  ")}`.trimEnd());
    for (const change of fieldChanges(action)) lines.push(`          ${changeLine(change, paint)}`);
  });
  const facts = [
    ["Cost", plan.total_cost_estimate],
    ["Duration", plan.actions.some((action) => action.action_type !== "noop") && plan.estimated_duration],
    ["Current", [plan.current_status, plan.current_url].filter(Boolean).join(", ")],
  ].filter((fact): fact is [string, string] => Boolean(fact[1]));
  if (facts.length > 0) lines.push("", ...facts.map(([name, value]) => `  ${pad(name ?? "", 10)}${value}`));
  return lines;
}

function cells(action: ResourceAction): string[] {
  return [action.action_type, action.resource_type, nameOf(action)];
}

/** A digest as long as it is elsewhere: each row is as wide as the widest. */
function nameOf({ resource_name }: ResourceAction): string {
  return shortDigest(resource_name);
}

function shortDigest(text: string): string {
  return text.replace(/(@sha256:[0-9a-f]{12})[0-9a-f]{52}$/, "$1…");
}

function changeLine({ field, from, to }: FieldChange, paint: Paint): string {
  const [before, after] = [shown(from), shown(to)];
  if (from === null) return `${paint("green", "+")} ${field}: ${after}`;
  if (to === null) return `${paint("red", "-")} ${field}: ${before}`;
  return `${paint("yellow", "~")} ${field}: ${before} → ${after}`;
}

/** A value of several lines as one: each would be a row of its own. */
function shown(value: string | null): string {
  const text = String(value);
  return /[\r\n]/.test(text) ? JSON.stringify(text) : shortDigest(text);
}
