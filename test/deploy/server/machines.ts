import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { startSshd } from "../../_sshd.ts";
import { docker, freePort } from "../_local-project.ts";
import { postgresImage } from "../_postgres-image.ts";
import { type Engine, startEngine } from "./engine.ts";

/** The machines `one` and `two`, each with an engine of its own: that of this machine, and another one. */
export interface Machines {
  /** Their ssh configuration. */
  readonly config: string;
  /** The engine of `two`. */
  readonly engine: Engine;
  close(): Promise<void>;
}

export async function startMachines(): Promise<Machines> {
  const sshd = await startSshd();
  const engine = await startEngine(1_500_000_000);
  const second = sshd.restricted(
    "second",
    `DOCKER_HOST=${engine.host}; export DOCKER_HOST; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`,
  );
  const config = join(sshd.folder, "several.config");
  const named = (file: string, name: string) =>
    readFileSync(file, "utf8").replace("Host server", `Host ${name}`);
  writeFileSync(config, `${named(sshd.config, "one")}\n${named(second, "two")}`);
  return {
    config,
    engine,
    async close() {
      await engine.close();
      await sshd.close();
    },
  };
}

/** A Postgres that both engines reach at one address. */
export async function sharedDatabase(): Promise<string> {
  const name = `svc-test-database-${Math.random().toString(36).slice(2, 8)}`;
  const port = await freePort();
  const gateway = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}");
  onTestFinished(() => void docker("rm", "--force", "--volumes", name));
  const words = [
    ...["run", "--detach", "--name", name, "--publish", `${port}:5432`, "--tmpfs", "/pgdata"],
    ...["--env", "POSTGRES_USER=service", "--env", "POSTGRES_DB=service", "--env", "PGDATA=/pgdata/data"],
    ...["--env", "POSTGRES_PASSWORD_FILE=/password", "--entrypoint", "sh", postgresImage()],
    ...["-c", "printf secret > /password && exec /entrypoint.sh"],
  ];
  docker(...words);
  const ready = () =>
    docker(
      "exec",
      name,
      "sh",
      "-c",
      "pg_isready --quiet --host=127.0.0.1 --username=service && echo ready || true",
    );
  await expect.poll(ready, { timeout: 60_000 }).toBe("ready");
  return `postgres://service:secret@${gateway}:${port}/service`;
}
