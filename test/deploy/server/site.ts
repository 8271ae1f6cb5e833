import { copyFileSync, cpSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { Deployment } from "../../../src/deploy/deployment.ts";
import { openDeployment } from "../../../src/deploy/deployment.ts";
import { down } from "../../../src/deploy/down.ts";
import { isDeployError } from "../../../src/deploy/errors.ts";
import type { DeployEvent } from "../../../src/deploy/events.ts";
import type { CheckJobs } from "../../../src/deploy/held-jobs.ts";
import type { JournalLine } from "../../../src/deploy/journal.ts";
import { DEFAULT_OPTIONS } from "../../../src/deploy/options.ts";
import { rollback } from "../../../src/deploy/rollback.ts";
import { up } from "../../../src/deploy/up.ts";
import platform from "../../../src/plugins/platforms/server/platform.ts";
import { bundleChild } from "../../_bundle.ts";
import { jobContext } from "../../runs/_jobs.ts";
import { svc } from "../_cli.ts";
import { temporaryProject, writeAll } from "../_fixture.ts";
import { docker } from "../_local-project.ts";
import { removeAllOf } from "../_server.ts";

const DOCKERFILE = `FROM node:22-slim
WORKDIR /app/package/dist/deploy
RUN mkdir /data && chown node:node /data
COPY manifest.json /app/package.json
COPY manifest.json /app/package/package.json
COPY service ./
RUN mv packages node_modules && mkdir node_modules/.bin && printf '#!/bin/sh\\nexec node child.js "$@"\\n' > node_modules/.bin/svc && chmod +x node_modules/.bin/svc
ENV SERVICE_DATA_DIR=/data
USER node
CMD ["node", "child.js"]
`;

/** The error of a deploy command as a value. */
export function failure(error: unknown) {
  if (isDeployError(error)) return error;
  throw error;
}

export const KEY = "a-key-of-the-server-test-0123456789";

/** What a command of a test says besides its name. */
export interface Said {
  readonly flags?: Readonly<Record<string, unknown>>;
  readonly options?: Readonly<Partial<typeof DEFAULT_OPTIONS>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly platform?: typeof platform;
  readonly checkJobs?: CheckJobs;
  readonly onJournal?: (line: JournalLine) => void;
  readonly onEvent?: (event: DeployEvent) => void;
}

/** A checkout of the project. */
export interface Checkout {
  readonly cwd: string;
  /** Writes the configuration: STEP, and other variables. */
  step(step: string, others?: Readonly<Record<string, string>>): void;
  open(command: string, said?: Said): Promise<Deployment>;
  up(said?: Said): ReturnType<typeof up>;
  rollback(said?: Said): ReturnType<typeof rollback>;
  down(said?: Said): ReturnType<typeof down>;
}

/** A service of its own on this machine's engine; everything of it is removed when the test is over. */
export async function site(sshConfig: string, port: number) {
  const name = `t${Math.random().toString(36).slice(2, 8)}`;
  const serviceName = `${name}-dev`;
  const service = await bundleChild(new URL("service.ts", import.meta.url), ["pg"]);
  onTestFinished(() => removeAllOf(serviceName));

  function checkout(): Checkout {
    const cwd = temporaryProject();
    cpSync(dirname(service), join(cwd, "service"), { recursive: true });
    // What is installed here never goes into an image.
    renameSync(join(cwd, "service/node_modules"), join(cwd, "service/packages"));
    copyFileSync(new URL("../../../package.json", import.meta.url), join(cwd, "manifest.json"));
    writeAll(cwd, { ".deployment/Dockerfile": DOCKERFILE });
    const open = (command: string, said: Said = {}) =>
      openDeployment({
        platform: (said.platform ?? platform) as never,
        options: { ...DEFAULT_OPTIONS, name, port, ...said.options },
        flags: { host: "server", sshConfig, bind: "127.0.0.1", ...said.flags },
        cwd,
        env: { PATH: process.env.PATH, HOME: process.env.HOME, SERVICE_API_KEY: KEY, ...said.env },
        command: `svc deploy ${command}`,
        emit: said.onEvent ?? (() => undefined),
        polling: { firstWait: 10, interval: 0.3, timeout: 10 },
        ...(said.onJournal ? { onJournal: said.onJournal } : {}),
      });
    const closing = async <T>(
      command: string,
      said: Said | undefined,
      run: (at: Deployment) => Promise<T>,
    ) => {
      const deployment = await open(command, said);
      try {
        return await run(deployment);
      } catch (error) {
        if (process.env.SVC_SHOW && isDeployError(error)) console.log(error.message, error.detail, error.log);
        throw error;
      } finally {
        await deployment.close();
      }
    };
    const consent = async () => true;
    return {
      cwd,
      open,
      step(step, others = {}) {
        writeAll(cwd, {
          ".deployment/config.yaml": `environment: ${JSON.stringify({ STEP: step, ...others })}\n`,
        });
      },
      up: (said) => closing("up", said, (at) => up(at, consent, said?.checkJobs)),
      rollback: (said) => closing("rollback", said, (at) => rollback(at, { to: undefined, consent })),
      down: (said) => closing("down", said, (at) => down(at, consent)),
    };
  }

  const url = `http://127.0.0.1:${port}`;
  /** A call of the service's API; resolves with the body. */
  async function ask<T = Record<string, unknown>>(path: string, body?: unknown): Promise<T> {
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const headers = { "x-api-key": KEY, "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, { headers, ...sent });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async function statuses(): Promise<Readonly<Record<string, string>>> {
    const jobs = await ask<{ job_id: string; status: string }[]>("/jobs");
    return Object.fromEntries(jobs.map(({ job_id, status }) => [job_id, status]));
  }

  return {
    name,
    serviceName,
    url,
    checkout,
    ask,
    /** Starts a job with this id, which asks a question. */
    start: (id: string) => ask("/agents/asker/jobs", { job_context: jobContext(id), job_fields: {} }),
    /** Jobs and their statuses. */
    statuses,
    expectStatuses: (expected: Readonly<Record<string, string>>) =>
      expect.poll(() => statuses().catch(() => undefined), { timeout: 60_000 }).toEqual(expected),
    /** The command line of `svc deploy` in a folder that has nothing of the project. */
    elsewhere() {
      const cwd = mkdtempSync(join(tmpdir(), "svc-elsewhere-"));
      onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
      const to = `--platform server --host server --ssh-config ${sshConfig} --name ${name} --port ${port}`;
      const platforms = { server: async () => ({ default: platform as never }) };
      return { cwd, run: (line: string) => svc({ cwd }, `${line} ${to}`, { platforms }) };
    },
    /** Names of the containers of the service that run. */
    running: () =>
      docker("ps", "--format", "{{.Names}}", "--filter", `label=agent-control-service.service=${serviceName}`)
        .split("\n")
        .filter(Boolean),
  };
}
