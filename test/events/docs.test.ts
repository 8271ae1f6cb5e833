// @alone
import { readFileSync, writeFileSync } from "node:fs";
import { toJsonSchema } from "@valibot/to-json-schema";
import { expect, it } from "vitest";
import { EVENT_SCHEMAS } from "../../src/cli/control/verify.ts";

const FILE = new URL("../../docs/events.md", import.meta.url);
const SECTION = /<!-- schemas -->[\s\S]*<!-- \/schemas -->/;

/** The section as the schemas say it; `SVC_UPDATE_DOCS=1` writes it. */
function section(): string {
  const blocks = Object.entries(EVENT_SCHEMAS)
    .filter(([type]) => type !== "agent.job.error")
    .map(([type, schema]) => {
      const { $schema: _, ...json } = toJsonSchema(schema, {
        typeMode: "output",
        target: "draft-2020-12",
        errorMode: "ignore",
      });
      const title = type === "agent.job.end" ? "agent.job.end, agent.job.error" : type;
      return `### ${title}\n\n\`\`\`json\n${compact(json)}\n\`\`\`\n`;
    });
  return `<!-- schemas -->\n\n${blocks.join("\n")}\n<!-- /schemas -->`;
}

/** JSON with what fits into a line on one line. */
function compact(value: unknown, indent = ""): string {
  const line = JSON.stringify(value);
  if (line.length + indent.length <= 110 || typeof value !== "object" || value === null) return line;
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    return `[\n${value.map((item) => inner + compact(item, inner)).join(",\n")}\n${indent}]`;
  }
  const entries = Object.entries(value).map(
    ([key, item]) => `${inner}${JSON.stringify(key)}: ${compact(item, inner)}`,
  );
  return `{\n${entries.join(",\n")}\n${indent}}`;
}

it("docs/events.md has the schemas of the service's events", () => {
  const text = readFileSync(FILE, "utf8");
  const expected = section();
  if (process.env.SVC_UPDATE_DOCS === "1")
    writeFileSync(
      FILE,
      text.replace(SECTION, () => expected),
    );

  expect(readFileSync(FILE, "utf8").match(SECTION)?.[0]).toBe(expected);
});
