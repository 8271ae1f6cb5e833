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

/** `svc deploy local`: the service in containers of this machine, as it will run elsewhere. */
export const localCommand = defineCommand({
  usage: "local",
  summary: "Test the service in containers of this machine; needs Docker",
  flags: v.object({
    name: flags.TARGET_FLAGS.name,
    env: flags.TARGET_FLAGS.env,
    port: v.optional(flags.port("port that the service listens on"), 8000),
    generateApiKey: flags.switchOff("make an API key for the test"),
    generateRsa: flags.switchOff("make an RSA private key for the test"),
    timeout: v.optional(flags.seconds("to wait for the start"), 30),
    dockerFilesOnly: flags.switchOff("write the files and run nothing"),
    ...flags.SOURCE_FLAGS,
    stop: flags.switchOff("remove containers, data, images and keys of the test"),
    ...flags.OVERWRITE,
    ...flags.ACCEPT_DATA_LOSS,
    trustFiles: flags.switchOff(
      "use a compose file and keys in .deployment/ that svc does not know as yours",
    ),
    ...flags.YES,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  }),
  examples: [
    "svc deploy local --generate-api-key --generate-rsa",
    "svc deploy local --port 8100 --verbose",
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
        else
          shell.print(
            removed.length === 0 ? "Nothing was there to remove." : `Removed: ${removed.join(", ")}.`,
          );
        return EXIT.done;
      }
      const outcome = await localUp(run);
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
  shell.print(shell.paint("bold", "Running in a container of this machine, healthy"));
  const { url, apiKey } = service;
  const lines = facts(shell.paint, [
    ["URL", url],
    ["Admin", `${url}/admin/`],
    ["API docs", `${url}/docs`],
    ...service.endpoints.map(
      (check) => ["Checked", `${check.path} ${check.status}${check.note ? ` (${check.note})` : ""}`] as const,
    ),
    ["Image", service.image],
    ["Next", "svc deploy local --stop removes it; run it again after a change to update it"],
  ]);
  for (const line of lines) shell.print(line);
  // The key of a test on this machine is shown, as without it the admin pages cannot be opened.
  if (apiKey !== undefined) shell.context.print(`  ${shell.paint("dim", "API key".padEnd(10))}${apiKey}`);
}
