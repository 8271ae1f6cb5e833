import { DeployError, EXIT } from "../../deploy/errors.ts";
import { firstUp } from "../../deploy/first-up.ts";
import { isWell } from "../../deploy/release-health.ts";
import { type Status, status } from "../../deploy/status.ts";
import { facts } from "./facts.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";

/** `svc deploy status`: the running service, its health and its configuration. */
export const statusCommand = platformCommand({
  usage: "status",
  summary: "Show URL, health, configuration and resources of the running service",
  flags: { ...flags.TARGET_FLAGS, ...flags.VERBOSE, ...flags.JSON_FLAG },
  examples: [
    "svc deploy status --platform cloud-run",
    "svc deploy status --platform cloud-run --env prod --json",
  ],
  run: async ({ shell, deployment }) => {
    const found = await status(deployment);
    shell.progress.clear();
    const { target } = deployment;
    if (shell.json) shell.document(toDocument(found, target.serviceName, deployment.platform.name));
    if (found.live === undefined) {
      if (shell.json) return EXIT.failed;
      throw new DeployError(
        "not_deployed",
        `"${target.serviceName}" is not running on ${deployment.platform.name}`,
        {
          outcome: [...found.drift, found.unfinished].filter(Boolean).join(". ") || undefined,
          fix: `Deploy it: ${await firstUp(deployment)}`,
        },
      );
    }
    if (!shell.json) {
      const { live, health, state } = found;
      const checked = health ? new Date(health.timestamp * 1000).toISOString() : undefined;
      shell.print(
        shell.paint("bold", `${target.serviceName} on ${deployment.platform.name} (${target.region})`),
      );
      const lines = facts(shell.paint, [
        ["URL", live.url],
        ["Status", live.status],
        ["Health", health && [health.status, health.error_message].filter(Boolean).join(": ")],
        ["Checked", checked],
        ["Environment", target.environment],
        ["Port", String(state?.port ?? live.env?.SERVICE_PORT ?? target.port)],
        ["Image", live.image],
        ["Revision", live.revision],
        ["CPU", live.resources?.cpu],
        ["Memory", live.resources?.memory],
        ["Instances", live.resources?.instances],
        ["Secrets", found.secretNames.join(", ")],
        ["Deployed", state?.updated_at],
        ["Lock", found.lock && `${found.lock.holder}, since ${found.lock.since}`],
        ["Unfinished", found.unfinished],
      ]);
      for (const line of lines) shell.print(line);
      for (const line of found.drift) shell.print(`${shell.paint("yellow", "!")} ${shell.hint(line)}`);
    }
    return found.health && isWell(found.health) ? EXIT.done : EXIT.failed;
  },
});

function toDocument(found: Status, serviceName: string, platform: string): unknown {
  const { live, state, health, secretNames, drift, unfinished, lock } = found;
  return {
    service_name: serviceName,
    platform,
    deployed: live !== undefined,
    service_url: live?.url ?? null,
    status: live?.status ?? "absent",
    health: health ?? null,
    environment: state?.environment ?? null,
    port: state?.port ?? null,
    image: live?.image ?? null,
    revision: live?.revision ?? null,
    resources: live?.resources ?? null,
    secrets: secretNames,
    drift,
    unfinished: unfinished ?? null,
    lock: lock ?? null,
    state: state ?? null,
  };
}
