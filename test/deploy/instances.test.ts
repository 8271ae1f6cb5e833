import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { readProject } from "../../src/deploy/project.ts";
import { renderTemplates } from "../../src/deploy/templates.ts";
import { temporaryProject } from "./_fixture.ts";
import { freePort } from "./_local-project.ts";

const BALANCER = new URL("../../src/templates/deploy/balancer.cjs", import.meta.url).pathname;

interface Compose {
  readonly services: Record<
    string,
    { command?: string[]; ports?: string[]; environment: object; depends_on?: object }
  >;
  readonly secrets?: Record<string, { file: string }>;
  readonly volumes: object;
}

async function composeOf(image: string | undefined): Promise<Compose> {
  const files = await renderTemplates({
    project: await readProject(temporaryProject()),
    name: "hello",
    serviceName: "hello-dev",
    port: 8000,
    localImage: "hello-dev:local-test",
    imageTag: "t",
    env: { SERVICE_PORT: "8000" },
    secretNames: ["SERVICE_API_KEY", "SERVICE_DATABASE_URL"],
    database: { instances: ["service-1", "service-2"], image },
  });
  return parse(files["docker-compose.yml"] ?? "") as Compose;
}

describe("the compose file of several instances", () => {
  it("has each instance, a proxy that alone has a port, and a database whose password is a file", async () => {
    const { services, secrets, volumes } = await composeOf("postgres:17");

    expect(Object.keys(services)).toEqual(["service-1", "service-2", "proxy", "postgres"]);
    expect(Object.keys(services).filter((name) => services[name]?.ports)).toEqual(["proxy"]);
    expect(services["service-2"]?.environment).toEqual({
      SERVICE_PORT: "8000",
      SERVICE_API_KEY: null,
      SERVICE_DATABASE_URL: null,
    });
    expect(services["service-2"]?.depends_on).toEqual({ postgres: { condition: "service_healthy" } });
    expect(services.postgres?.environment).toMatchObject({
      POSTGRES_PASSWORD_FILE: "/run/secrets/postgres-password",
    });
    expect(secrets).toEqual({ "postgres-password": { file: "./secrets/hello-dev/POSTGRES_PASSWORD" } });
    expect(volumes).toEqual({ postgres: {} });
    // Compose turns $$ into $.
    expect(services.proxy?.command?.[2]?.replaceAll("$$", "$")).toBe(readFileSync(BALANCER, "utf8"));
  });

  it("has no database of its own where the URL of another one is given", async () => {
    const { services, secrets } = await composeOf(undefined);

    expect(Object.keys(services)).toEqual(["service-1", "service-2", "proxy"]);
    expect(secrets).toBeUndefined();
  });
});

/** A server at an address of its own, on a port that all share, that says what it got. */
async function upstream(host: string, port: number): Promise<{ port: number; close(): void }> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const { method, url, headers } = request;
    response.writeHead(201, { "content-type": "application/json" });
    response.end(JSON.stringify({ host, method, url, body, from: headers["x-forwarded-for"] }));
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  onTestFinished(close);
  return { port: (server.address() as AddressInfo).port, close };
}

describe("the proxy in front of instances", () => {
  it("gives requests to each in turn, passes one that has ended, and says so when all have", async () => {
    const first = await upstream("127.0.0.2", 0);
    const second = await upstream("127.0.0.3", first.port);
    // The proxy takes the port that its instances have, at another address.
    const listening = await freePort();
    const script = readFileSync(BALANCER, "utf8").replace(
      'listen(port, "0.0.0.0")',
      `listen(${listening}, "127.0.0.1")`,
    );
    const proxy = spawn(process.execPath, ["-e", script], {
      env: { ...process.env, BALANCER_HOSTS: "127.0.0.2 127.0.0.3", BALANCER_PORT: String(first.port) },
      stdio: "inherit",
    });
    onTestFinished(() => void proxy.kill("SIGKILL"));
    const ask = async (body: string) => {
      const response = await fetch(`http://127.0.0.1:${listening}/jobs?x=1`, { method: "POST", body });
      return { code: response.status, ...((await response.json()) as { host?: string; error?: string }) };
    };
    await expect.poll(() => ask("first").catch(() => undefined), { timeout: 10_000 }).toBeDefined();

    const both = [await ask("a"), await ask("b")];
    first.close();
    const left = [await ask("c"), await ask("d"), await ask("e")];
    second.close();
    const none = await ask("f");

    expect(both.map(({ host }) => host).sort()).toEqual(["127.0.0.2", "127.0.0.3"]);
    expect(both[0]).toMatchObject({
      code: 201,
      method: "POST",
      url: "/jobs?x=1",
      body: "a",
      from: "127.0.0.1",
    });
    expect(left.map(({ host }) => host)).toEqual(["127.0.0.3", "127.0.0.3", "127.0.0.3"]);
    expect(none).toEqual({ code: 502, error: "no instance answers" });
  });
});
