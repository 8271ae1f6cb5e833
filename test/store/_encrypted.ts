import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineAgent, file } from "agent-control-service";
import type { TestServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect } from "vitest";

/** Texts, one for each place that content can be in. */
export const MARKERS = [
  ...["field", "step", "attempt", "error", "log line", "description", "question", "answer", "update"],
  ...["result", "event", "file", "title", "closing", "failure", "file name"],
].map((place) => `marker of the ${place}`);

export const secretive = defineAgent({
  name: "Secretive",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ text: v.string(), paper: v.optional(file()) }),
      run: async ({ job, fields, log }) => {
        if (fields.text === "fail") throw new Error("marker of the failure");
        const item = await job.openCase({
          id: "Case",
          name: "Case",
          description: "marker of the description",
        });
        await item.step("look", () => ({ found: "marker of the step" }));
        let tries = 0;
        await item.step(
          "try",
          () => {
            if (tries++ === 0) throw new Error("marker of the attempt");
          },
          { retries: 1, backoff: { initial: 0 } },
        );
        await item
          .step("fail", () => {
            throw new TypeError("marker of the error");
          })
          .catch(() => {});
        log.info("marker of the log line");
        await item.update({ name: "seen", payload: { seen: "marker of the update" } });
        const paper = await item.step("file", ({ file }) =>
          file("marker of the file name.txt", "marker of the file"),
        );
        await item.artifact("report", paper, { title: "marker of the title" });
        await job.waitFor("paid");
        await item.ask({ question: "marker of the question", fields: v.object({ why: v.string() }) });
        await item.close({ closed: "marker of the closing" });
        return { all: "marker of the result" };
      },
    },
  },
});

/** Runs a job that has content in all places, and one that fails. */
export async function runSecretive(server: TestServer): Promise<void> {
  const run = await server.run(secretive, {
    fields: { text: "marker of the field" },
    events: { paid: { text: "marker of the event" } },
    answers: { Case: { why: "marker of the answer" } },
  });
  expect(run.result).toEqual({ all: "marker of the result" });
  await server.run(secretive, { fields: { text: "fail" } });
}

/** All bytes of all files under a folder. */
export function bytesUnder(folder: string): Buffer[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
}

/** The markers that occur in some bytes. */
export function markersIn(all: readonly (Buffer | string)[]): string[] {
  return MARKERS.filter((marker) => all.some((bytes) => bytes.includes(marker)));
}
