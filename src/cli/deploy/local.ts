import * as v from "valibot";
import { EXIT } from "../../deploy/errors.ts";
import type { LocalOptions } from "../../deploy/local/local-run.ts";
import { openLocal } from "../../deploy/local/local-run.ts";
import { localStop } from "../../deploy/local/local-stop.ts";
import type { LocalOutcome } from "../../deploy/local/local-up.ts";
import { localUp } from "../../deploy/local/local-up.ts";
import { defineCommand } from "../command.ts";
import { facts } from "./facts.ts";
import * as flags from "./flags.ts";
import type { Shell } from "./session.ts";
import { withShell } from "./session.ts";

/** `svc deploy local`: runs the service in containers on this machine, the way a platform runs it. */
export const localCommand = defineCommand({
  usage: "local",
  summary: "Test the service in containers on this machine; needs Docker",
  flags: v.object({
    ...flags.COMMON,
    name: flags.TARGET_FLAGS.name,
    env: flags.TARGET_FLAGS.env,
    port: v.optional(flags.port("port that the service listens on"), 8000),
    generateApiKey: flags.switchOff("generate an API key for the test"),
    generateRsa: flags.switchOff("generate an RSA private key for the test"),
    instances: v.optional(
      v.pipe(
        v.number(),
        v.integer("must be a whole number"),
        v.minValue(1, "must be at least 1"),
        v.maxValue(20, "must be at most 20"),
        v.description("containers that share a Postgres database, behind a proxy"),
      ),
    ),
    postgresImage: v.optional(
      v.pipe(v.string(), v.description("image of that database (default: postgres:17)")),
    ),
    timeout: v.optional(flags.seconds("limit for the start"), 30),
    dockerFilesOnly: flags.switchOff("write the files only; run nothing"),
    ...flags.SOURCE_FLAGS,
    ...flags.IMAGE_FLAGS,
    stop: flags.switchOff("remove the test's containers, data, images and keys"),
    ...flags.CHECK,
    ...flags.OVERWRITE,
    ...flags.ACCEPT_DATA_LOSS,
    trustFiles: flags.switchOff(
      "use a compose file and keys in .deployment/ that svc did not create for you",
    ),
    ...flags.YES,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  }),
  examples: [
    "svc deploy local --generate-api-key --generate-rsa",
    "svc deploy local --port 8100 --verbose",
    "svc deploy local --instances 3",
    "svc deploy local --stop --yes",
  ],
  run: ({ flags: given, context }) =>
    withShell(context, given, async (shell) => {
      const run = await openLocal({
        options: { ...given, filesOnly: given.dockerFilesOnly } as unknown as LocalOptions,
        cwd: context.cwd,
        env: context.env,
        emit: shell.emit,
        ask: shell.askPerson,
        signal: shell.signal,
        redactor: shell.redactor,
      });
      shell.logPath = run.log.path;
      if (given.stop === true) {
        shell.needYes("svc deploy local --stop");
        const { removed, openWork } = await localStop(run, async () =>
          shell.ask(`Remove ${run.serviceName} with its data?`),
        );
        shell.progress.clear();
        if (shell.json) shell.document({ success: true, removed, open_work: openWork ?? null });
        else shell.print(removed.length === 0 ? "Nothing to remove." : `Removed: ${removed.join(", ")}.`);
        return EXIT.done;
      }
      const outcome = await localUp(run, given.check === false ? undefined : context.self);
      shell.progress.clear();
      if (shell.json) shell.document({ success: true, files: outcome.files, service: toDocument(outcome) });
      else report(shell, outcome);
      return EXIT.done;
    }),
});

function toDocument({ service }: LocalOutcome): unknown {
  if (service === undefined) return null;
  const { apiKey, ...rest } = service;
  return { ...rest, api_key_generated: apiKey !== undefined };
}

function report(shell: Shell, { service, files }: LocalOutcome): void {
  if (service === undefined) {
    for (const { file, outcome } of files)
      shell.print(`  .deployment/${file}  ${shell.paint("dim", outcome)}`);
    return;
  }
  shell.print("");
  const { url, apiKey, instances } = service;
  const containers = instances === 1 ? "a container" : `${instances} containers behind a proxy`;
  shell.print(shell.paint("bold", `Running in ${containers} on this machine, healthy`));
  const lines = facts(shell.paint, [
    ["URL", url],
    ["Admin", `${url}/admin/`],
    ["API docs", `${url}/docs`],
    ...service.endpoints.map(
      (check) => ["Checked", `${check.path} ${check.status}${check.note ? ` (${check.note})` : ""}`] as const,
    ),
    ["Image", service.image],
    [
      "Next",
      "To remove it, run svc deploy local --stop. To update it after a change, run svc deploy local again",
    ],
  ]);
  for (const line of lines) shell.print(line);
  // The key of a local test is shown because the admin pages cannot be opened without it.
  if (apiKey !== undefined) shell.context.print(`  ${shell.paint("dim", "API key".padEnd(10))}${apiKey}`);
}
