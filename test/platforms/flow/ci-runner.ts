import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { parse } from "yaml";
import type { Ended } from "./user.ts";

const FRONT = new URL("front.mjs", import.meta.url).href;

type Values = Readonly<Record<string, string>>;

export interface Step {
  readonly uses?: string;
  readonly with?: Values;
  readonly run?: string;
  readonly env?: Values;
}

/** A machine that runs the jobs of a pipeline's file: its own home, a clone per job, and the tools of the flow. */
export interface Runner {
  readonly home: string;
  /** A fresh clone. */
  clone(from: string): Promise<string>;
  /** Runs shell lines as a runner does; what they export is not kept. */
  shell(cwd: string, script: string, env: Values): Promise<Ended>;
}

/** `npm ci` of its jobs links the packages that were installed before: what npm does is not the subject. */
export function openRunner(folder: string, packages: string, base: Values): Runner {
  const home = mkdtempSync(join(folder, "runner-"));
  const bin = join(home, "bin");
  mkdirSync(bin);
  const tool = (name: string, text: string) => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(bin, name), 0o755);
  };
  tool(
    "npm",
    `test "$1" = ci || exit 0; ln -s ${packages} node_modules && echo node_modules >> .git/info/exclude`,
  );
  tool("apk", "exit 0");
  const shell = (cwd: string, script: string, env: Values): Promise<Ended> => {
    const child = spawn("bash", ["-e", "-o", "pipefail", "-c", script], {
      cwd,
      env: {
        ...base,
        HOME: home,
        CI: "true",
        PATH: `${bin}:${base.PATH}`,
        NODE_OPTIONS: `--import=${FRONT}`,
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const told = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => {
        told[name] += text;
      });
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => resolve({ code, ...told }));
    });
  };
  return {
    home,
    shell,
    async clone(from) {
      const cwd = join(mkdtempSync(join(home, "job-")), "repository");
      const made = await shell(home, `git clone --quiet ${from} ${cwd}`, {});
      if (made.code !== 0) throw new Error(made.stderr);
      return cwd;
    },
  };
}

/** The script of a job of GitLab, and its variables with those of the project in them. */
export function gitlabJob(file: string, name: string, values: Values): { script: string; env: Values } {
  const job = parse(file)[name];
  const expand = (text: string) =>
    text.replaceAll(/\$(\w+)/g, (_, variable: string) => {
      if (values[variable] === undefined) throw new Error(`no value for ${variable}`);
      return values[variable];
    });
  const own = Object.entries((job.variables ?? {}) as Values).map(([key, text]) => [key, expand(text)]);
  return {
    script: [...job.before_script, ...job.script].join("\n"),
    env: { ...values, ...Object.fromEntries(own) },
  };
}

/** The steps of a job of a workflow, with the values of its expressions. */
export function stepsOf(workflow: string, job: string, values: Values): Step[] {
  const { steps } = parse(workflow).jobs[job];
  const text = JSON.stringify(steps).replaceAll(/\$\{\{ ([\w.]+) \}\}/g, (_, name: string) => {
    if (name.startsWith("secrets.")) return values[name] ?? "";
    const value = values[name];
    if (value === undefined) throw new Error(`no value for ${name}`);
    return value;
  });
  return JSON.parse(text) as Step[];
}

export interface Comment {
  readonly id: number;
  body: string;
}

/** The part of a code host that has the comments of one change, and signs tokens for jobs, behind a token. */
export async function openCodeHost(token: string, identity = "a token of the code host") {
  const comments: Comment[] = [];
  const calls: string[] = [];
  const server = createServer((request, response) => {
    let raw = "";
    request.on("data", (chunk: Buffer) => {
      raw += chunk.toString();
    });
    request.on("end", () => {
      const given = request.headers.authorization ?? request.headers["private-token"];
      calls.push(`${request.method} ${request.url}`);
      if (given !== `Bearer ${token}` && given !== token) return void response.writeHead(401).end("{}");
      if (request.url?.startsWith("/identity")) return void response.end(JSON.stringify({ value: identity }));
      const id = Number(/\/(?:comments|notes)\/(\d+)$/.exec(request.url ?? "")?.[1] ?? 0);
      if (request.method === "GET") {
        const page = Number(new URL(request.url ?? "", "http://host").searchParams.get("page"));
        return void response.end(JSON.stringify(comments.slice((page - 1) * 100, page * 100)));
      }
      const { body } = JSON.parse(raw) as { body: string };
      const found = comments.find((one) => one.id === id);
      if (found) found.body = body;
      else comments.push({ id: comments.length + 1, body });
      response.writeHead(found ? 200 : 201).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    comments,
    calls,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
