import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import type { TestServer } from "agent-control-service/testing";
import { onTestFinished } from "vitest";

const require = createRequire(import.meta.url);

/** A part of the suite that servers do not need calls what Node has since version 22 only. */
const HOOK = `export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.endsWith("/conformance/dist/index.js")) return loaded;
  return { ...loaded, source: String(loaded.source).replace(/globSync as \\w+,/, "") };
}`;
const REGISTER = `import { register } from "node:module"; register(${JSON.stringify(toUrl(HOOK))});`;

function toUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

/** The names of the suite's tools are not those of agents, which have no `_`. */
const toOurs = (body: string): string =>
  body.includes('"method":"tools/call"')
    ? body.replace(/"name":"(test_[a-z_]+)"/, (_, name: string) => `"name":"${name.replaceAll("_", "-")}"`)
    : body;
const toTheirs = (body: string): string =>
  body.replace(/"name":"(test-[a-z-]+)"/g, (_, name: string) => `"name":"${name.replaceAll("-", "_")}"`);

/** An address at which the service is without its key, and its tools have the names that the suite calls. */
export async function openForSuite(): Promise<{ origin: string; serve(server: TestServer): void }> {
  let target: TestServer | undefined;
  const door = createServer(async (request, response) => {
    const headers = new Headers(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    for (const name of ["host", "connection", "content-length", "transfer-encoding"]) headers.delete(name);
    headers.set("x-api-key", target!.key);
    const name = headers.get("mcp-name");
    if (headers.get("mcp-method") === "tools/call" && name?.startsWith("test_"))
      headers.set("mcp-name", name.replaceAll("_", "-"));
    const given = await text(request);
    const answer = await fetch(new URL(request.url!, target!.url), {
      method: request.method!,
      headers,
      ...(given !== "" && { body: toOurs(given) }),
    });
    const shown = Object.fromEntries(answer.headers);
    for (const hidden of ["content-length", "content-encoding", "connection"]) delete shown[hidden];
    response.writeHead(answer.status, shown);
    for await (const part of answer.body?.pipeThrough(new TextDecoderStream()) ?? [])
      response.write(toTheirs(part));
    response.end();
  });
  await new Promise<void>((resolve) => door.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    door.closeAllConnections();
    door.close();
  });
  const { port } = door.address() as { port: number };
  return {
    origin: `http://127.0.0.1:${port}`,
    serve: (server) => {
      target = server;
    },
  };
}

/** Runs what the official suite requires of servers of a revision: the scenarios, and the checks that failed, as `scenario:check`. */
export async function runSuite(
  origin: string,
  revision: string,
): Promise<{ readonly scenarios: readonly string[]; readonly failed: readonly string[] }> {
  const folder = await mkdtemp(join(tmpdir(), "conformance-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const home = dirname(require.resolve("@modelcontextprotocol/conformance/package.json"));
  const args = ["server", "--url", `${origin}/mcp`, "--requirements", revision, "-o", folder];
  const suite = spawn(process.execPath, ["--import", toUrl(REGISTER), join(home, "dist/index.js"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [output, errors] = await Promise.all([text(suite.stdout), text(suite.stderr)]);
  const set = readFileSync(join(home, "requirements", `${revision}.yaml`), "utf8");
  const scenarios = [
    ...set
      .split(/^server:$/m)[1]!
      .split(/^\S/m)[0]!
      .matchAll(/^ {2}- (\S+)$/gm),
  ].map(([, name]) => name!);
  const results = new Map<string, string[]>();
  for (const name of readdirSync(folder)) {
    const scenario = /^server-(.*)-\d{4}-\d\d-\d\dT/.exec(name)![1]!;
    const checks = JSON.parse(readFileSync(join(folder, name, "checks.json"), "utf8")) as {
      id: string;
      status: string;
    }[];
    if (checks.length === 0) throw new Error(`The scenario ${scenario} has checked nothing`);
    results.set(
      scenario,
      checks.filter(({ status }) => status === "FAILURE").map(({ id }) => id),
    );
  }
  const missing = scenarios.filter((name) => !results.has(name));
  if (scenarios.length === 0 || missing.length > 0)
    throw new Error(`The suite has not run ${missing.join(", ")}: ${output}${errors}`);
  return { scenarios, failed: scenarios.flatMap((name) => results.get(name)!.map((id) => `${name}:${id}`)) };
}
