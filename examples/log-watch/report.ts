import { assess, type Incident } from "./incidents.ts";

/** The incidents as Markdown, worst first. */
export function renderReport(
  incidents: readonly Incident[],
  entries: number,
  unknown: readonly string[],
): string {
  return [
    `# Incidents: ${incidents.length}, in log entries: ${entries}`,
    "",
    ...incidents.flatMap(renderIncident),
    ...(unknown.length > 0 ? [`Lines of no known format: ${unknown.join(", ")}`, ""] : []),
  ].join("\n");
}

function renderIncident(incident: Incident): string[] {
  return [
    `## ${assess(incident)}: ${incident.title}`,
    "",
    `Count: ${incident.count}, from ${incident.first} to ${incident.last}, at most ${incident.peak} in five minutes, in ${incident.files.join(", ")}.`,
    "",
    "```",
    ...incident.samples.flatMap((sample) => [
      `${sample.time} ${sample.source} ${sample.message}`,
      ...sample.stack,
    ]),
    "```",
    "",
  ];
}
