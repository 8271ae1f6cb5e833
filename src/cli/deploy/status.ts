import type { HealthCheckResult } from "../../core/models/deployment.ts";
import { EXIT } from "../../deploy/errors.ts";
import { notDeployed, whereOf } from "../../deploy/not-deployed.ts";
import { isWell } from "../../deploy/release-health.ts";
import { type DatabaseStatus, type Status, status } from "../../deploy/status.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";

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
    const { target } = deployment;
    const isFine = found.health !== undefined && isWell(found.health);
    const { live, health, state } = found;
    if (live === undefined && !shell.json)
      throw await notDeployed(deployment, { outcome: [...found.drift, found.unfinished ?? []].flat() });
    tellResult(shell, {
      document: toDocument(found, target.serviceName, deployment.platform.name),
      title: `${target.serviceName} on ${deployment.platform.name} (${whereOf(deployment)})`,
      facts: [
        ["URL", live?.url],
        ["Status", live?.status],
        ["Health", health && [health.status, health.error_message].filter(Boolean).join(": ")],
        ["Checked", health && new Date(health.timestamp * 1000).toISOString()],
        ["Environment", target.environment],
        ["Port", String(state?.port ?? live?.env?.SERVICE_PORT ?? target.port)],
        ["Image", live?.image],
        ["Revision", live?.revision],
        ["CPU", live?.resources?.cpu],
        ["Memory", live?.resources?.memory],
        ["Instances", live?.resources?.instances],
        ["Database", found.database && databaseText(found.database)],
        ["Last backup", health && backupText(health)],
        ["Secrets", found.secretNames.join(", ")],
        ["Deployed", state?.updated_at],
        ["Lock", found.lock && `${found.lock.holder}, since ${found.lock.since}`],
        ["Unfinished", found.unfinished],
        [
          "Next",
          isFine
            ? undefined
            : shell.hint("svc deploy logs shows what it wrote; svc deploy up starts it again"),
        ],
      ],
      lines: found.drift.map((line) => `${shell.paint("yellow", "!")} ${shell.hint(line)}`),
    });
    return isFine ? EXIT.done : EXIT.failed;
  },
});

/** A database beside the service: what it is made of, and whether that is there. */
function databaseText({ image, status, container, volume }: DatabaseStatus): string {
  const parts =
    container !== null && container === volume
      ? `container and volume ${volume}`
      : [
          container === null ? "no container" : `container ${container}`,
          volume === null ? "no volume" : `volume ${volume}`,
        ].join(", ");
  return `${image}, ${status} (${parts})`;
}

/** When the service made its last backup; undefined where it makes none. */
function backupText({ last_backup }: HealthCheckResult): string | undefined {
  return last_backup === null ? "none yet" : last_backup;
}

function toDocument(found: Status, serviceName: string, platform: string): unknown {
  const { live, state, health, database, secretNames, drift, unfinished, lock } = found;
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
    database: database ?? null,
    secrets: secretNames,
    drift,
    unfinished: unfinished ?? null,
    lock: lock ?? null,
    state: state ?? null,
  };
}
