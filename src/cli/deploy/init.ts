import { basename } from "node:path";
import * as v from "valibot";
import { DEPLOY_FILE } from "../../deploy/file/deploy-file.ts";
import { initFile } from "../../deploy/file/init-file.ts";
import { parseFlags } from "../../deploy/flags.ts";
import { resolveName, toName } from "../../deploy/name.ts";
import type { PlatformFlags } from "../../deploy/platform.ts";
import { type Command, defineCommand } from "../command.ts";
import { CliError, UsageError } from "../errors.ts";
import { describeFlags } from "../flags.ts";
import * as flags from "./flags.ts";
import { isGiven, loadPlatform, offeredNames } from "./platforms.ts";
import { tellResult } from "./result.ts";
import { withShell } from "./session.ts";

/** `svc deploy init`: writes `deploy.yaml`, and moves what an earlier version kept elsewhere into it. */
export function initCommand(entries: PlatformFlags["entries"]): Command {
  return defineCommand({
    usage: "init",
    summary: `Write ${DEPLOY_FILE}, the committed settings of all later commands`,
    flags: v.object({
      ...flags.COMMON,
      name: flags.TARGET_FLAGS.name,
      region: flags.TARGET_FLAGS.region,
      projectId: flags.TARGET_FLAGS.projectId,
      publicUrl: flags.RELEASE_FLAGS.publicUrl,
      port: flags.RELEASE_FLAGS.port,
      storage: flags.RELEASE_FLAGS.storage,
      ...flags.forCommand(v.partial(v.object(entries)).entries, "init"),
      ...flags.YES,
      ...flags.JSON_FLAG,
    }),
    examples: [
      "svc deploy init",
      "svc deploy init --platform cloud-run --project-id my-project --region europe-west1 --yes",
    ],
    run: ({ flags, context }) => {
      const given: Readonly<Record<string, unknown>> = flags;
      return withShell(context, given, { verb: "init" }, async (shell) => {
        const asks = context.interactive && given.yes !== true && !shell.json;
        const { isCancel, select, text } = await import("@clack/prompts");
        const stopped = () => new CliError("Nothing was written");
        const askText = async (message: string, initialValue: string): Promise<string> => {
          if (!asks) return initialValue;
          const answer = await text({ message, initialValue, placeholder: "none" });
          if (isCancel(answer)) throw stopped();
          return (answer ?? "").trim();
        };

        let wanted = given.platform as string | undefined;
        if (wanted === undefined) {
          const names = offeredNames(context);
          if (!asks)
            throw new UsageError(
              "Option --platform is missing",
              `Set --platform to one of: ${names.join(", ")}.`,
            );
          const chosen = await select({
            message: "Where to deploy to",
            options: names.map((value) => ({ value, label: value })),
          });
          if (isCancel(chosen)) throw stopped();
          wanted = chosen;
        }
        const platform = await loadPlatform(wanted, context);
        const first: Record<string, string | number | boolean> = { platform: platform.name };
        const own = describeFlags(platform.flags);
        const put = (key: string, value: unknown) => {
          if (value !== undefined && value !== "") first[key] = value as string;
        };

        const folder = toName(basename(context.cwd));
        put("name", given.name ?? (await askText("Name of the service", folder)));
        if (first.name !== undefined) resolveName(String(first.name), context.cwd);
        const defaults = (await platform.defaults?.(context.env)) ?? {};
        const region = defaults.region?.value ?? platform.defaultRegion;
        // Which region the own settings of this machine name must not decide for colleagues and pipelines.
        put("region", given.region ?? (await askText("Region", region)));
        put(
          "projectId",
          given.projectId ??
            (await askText("Project or account, if it has one", defaults.projectId?.value ?? "")),
        );
        put("port", given.port);
        put("publicUrl", given.publicUrl);
        put("storage", given.storage);
        for (const { key, description } of own) {
          const isRequired = !v.safeParse(v.object({ [key]: platform.flags.entries[key]! }), {}).success;
          if (isGiven(context.argv, own.find((one) => one.key === key)!.name)) put(key, given[key]);
          else if (isRequired && asks) put(key, await askText(description, ""));
        }
        const ours = own.filter(({ key }) => first[key] !== undefined).map(({ key }) => [key, first[key]]);
        parseFlags(platform.flags, Object.fromEntries(ours));
        put("generateApiKey", true);
        put("generateRsa", true);

        const { moved, undecided } = await initFile(context.cwd, first, platform);
        return tellResult(shell, {
          document: { success: true, file: DEPLOY_FILE, settings: first, moved, undecided },
          lines: [
            `Wrote ${DEPLOY_FILE}. Commit it.`,
            ...moved.map((one) => `  Moved from .deployment/config.yaml: ${one}`),
            ...undecided.map((one) => `  Not decided yet: ${one}`),
            "Next: svc deploy plan",
          ],
        });
      });
    },
  });
}
