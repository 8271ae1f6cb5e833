import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerOptions } from "agent-control-service";
import { events, proxyAuth, webhooks } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { takeVariables } from "../../src/core/service/secret-variables.ts";
import { describeSettings } from "../../src/core/service/settings.ts";
import { cookieOf, postForm, signIn } from "../admin/_sign-in.ts";
import { sharedControl } from "../events/_control.ts";
import { workThrough } from "../events/_work.ts";
import { answer, makeKey, payer, show, start } from "../http/_payer.ts";
import { AUDIENCE, startIssuer } from "./_issuer.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const TABLE = /## All keys\n(.*?)\n## /s.exec(read("docs/security.md"))?.[1] ?? "";
const ROWS = TABLE.split("\n")
  .filter((line) => /^\| (?!Key +\||-)/.test(line))
  .map((line) => line.split("|")[1]!.trim());
const control = sharedControl();

/** Starts a service again and again over one folder, with what has changed meanwhile. */
async function folder() {
  const dataDir = await mkdtemp(join(tmpdir(), "svc-keys-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const rsaPrivateKey = makeKey();
  return async (options: Partial<ServerOptions> = {}): Promise<TestServer> => {
    const server = await testServer({
      agents: [payer],
      store: undefined,
      dataDir,
      rsaPrivateKey,
      ...options,
    });
    onTestFinished(() => server[Symbol.asyncDispose]());
    return server;
  };
}
const statusWith = async (server: TestServer, headers: Record<string, string>, path = "/whoami") =>
  (await server.request(path, { key: null, headers: { accept: "application/json", ...headers } })).status;
const tokenOf = async (server: TestServer, key = server.key) => {
  const made = await server.request("/jobs/job-1/tokens", { key, json: {} });
  return { authorization: `Bearer ${((await made.json()) as { token: string }).token}` };
};
async function finish(server: TestServer, length = "planted-4711".length): Promise<void> {
  await answer(server, "job-1");
  await expect.poll(async () => (await show(server, "job-1")).status).toBe("completed");
  expect((await show(server, "job-1")).result).toEqual({ length });
}

/** What shows that a row is true: here, or a test elsewhere, by its file and title. */
const PROOFS: Readonly<Record<string, (() => Promise<void>) | readonly [file: string, title: string]>> = {
  "API key": async () => {
    const serve = await folder();
    const [former, present] = ["the-former-key-of-this-service", "the-present-key-of-this-service"];
    const first = await serve({ apiKey: former });
    await start(first, "job-1");
    const cookie = await signIn(first);
    const token = await tokenOf(first);
    const made = await first.request("/admin/api/cases/job-1-case/links", { json: { name: "Mira" } });
    const link = ((await made.json()) as { path: string }).path;
    await first.service.close();

    const both = await serve({ apiKey: present, previousApiKey: former });
    const meanwhile = [
      await statusWith(both, { "x-api-key": former }),
      await statusWith(both, { cookie }),
      await statusWith(both, token, "/jobs/job-1"),
    ];
    await both.service.close();
    const alone = await serve({ apiKey: present });
    const after = [
      await statusWith(alone, { "x-api-key": former }),
      await statusWith(alone, { cookie }),
      await statusWith(alone, token, "/jobs/job-1"),
    ];
    const sent = new URL(link, alone.url).searchParams.get("token")!;
    const answered = await postForm(alone, "/answer", { token: sent, "f.approved": "true" });
    await expect.poll(async () => (await show(alone, "job-1")).status).toBe("completed");

    expect(meanwhile).toEqual([200, 200, 200]);
    expect(after).toEqual([401, 401, 401]);
    expect(answered.status).toBeLessThan(400);
  },
  "RSA key": ["cli/rotated-keys", "every key of the service can be replaced while jobs are open"],
  "Signing key": [
    "audit/cli",
    "a checkpoint that was kept shows that lines were cut off the store, and stays valid",
  ],
  "Named keys": async () => {
    let ahead = 0;
    const server = await (await folder())({ clock: () => new Date(Date.now() + ahead) });
    await start(server, "job-1");
    const made = await server.request("/access", { json: { name: "billing", role: "admin" } });
    const { key } = (await made.json()) as { key: string };
    const token = await tokenOf(server, key);

    const rotated = await server.request("/access/billing/rotate", { method: "POST" });
    const next = ((await rotated.json()) as { key: string }).key;
    const both = [
      await statusWith(server, { "x-api-key": key }),
      await statusWith(server, { "x-api-key": next }),
    ];
    // Sessions last half a day.
    ahead = 14 * 3_600_000;
    const cookie = cookieOf(await postForm(server, "/admin/session", { key, name: "" }));
    ahead = 24 * 3_600_000 + 1000;
    const after = [
      await statusWith(server, { "x-api-key": key }),
      await statusWith(server, { "x-api-key": next }),
    ];
    await answer(server, "job-1");

    expect(both).toEqual([200, 200]);
    expect(after).toEqual([401, 200]);
    expect(cookie).not.toBe("");
    // Idle for longer than sessions may be.
    expect(await statusWith(server, { cookie })).toBe(401);
    ahead = 0;
    expect(await statusWith(server, token, "/jobs/job-1")).toBe(200);
    await expect.poll(async () => (await show(server, "job-1")).status).toBe("completed");
  },
  "Declared keys": async () => {
    const serve = await folder();
    const line = (name: string, key: string) => ({
      ...{ name, role: "operator" as const },
      sha256: createHash("sha256").update(key).digest("hex"),
    });
    const [former, present] = ["the-former-key-of-ci-0123456789", "the-present-key-of-ci-0123456789"];
    const first = await serve({ access: { keys: [line("ci", former)] } });
    await start(first, "job-1");
    const cookie = cookieOf(await postForm(first, "/admin/session", { key: former, name: "" }));
    await first.service.close();

    const both = await serve({ access: { keys: [line("ci", former), line("ci-2", present)] } });
    const meanwhile = [
      await statusWith(both, { "x-api-key": former }),
      await statusWith(both, { "x-api-key": present }),
      await statusWith(both, { cookie }),
    ];
    await both.service.close();
    const alone = await serve({ access: { keys: [line("ci-2", present)] } });
    const after = [
      await statusWith(alone, { "x-api-key": former }),
      await statusWith(alone, { "x-api-key": present }),
      await statusWith(alone, { cookie }),
    ];

    expect([meanwhile, after]).toEqual([
      [200, 200, 200],
      [401, 200, 401],
    ]);
    await finish(alone);
  },
  "Encryption keys": [
    "store/encryption",
    "are rotated: the former one is still read, and the new one encrypts",
  ],
  "Client secret of the provider that people sign in at": [
    "access/oidc",
    "a client secret that is changed at the provider first signs nobody in, and nobody out",
  ],
  "Keys of the provider or proxy, which sign who people are": async () => {
    const issuer = await startIssuer();
    const second = await issuer.publish();
    const header = "x-assertion";
    const { jwks, issuer: name } = issuer;
    const signIn = proxyAuth({ jwks, issuer: name, audience: AUDIENCE, header, roles: { "*": "viewer" } });
    const server = await (await folder())({ access: { signIn } });
    await start(server, "job-1");

    const statuses = [];
    for (const one of [await issuer.sign(), await issuer.sign({}, second), await issuer.sign()])
      statuses.push(await statusWith(server, { [header]: one }));

    expect(statuses).toEqual([200, 200, 200]);
    expect(issuer.reads()).toBe(1);
    await finish(server);
  },
  "Secrets of webhooks": async () => {
    const serve = await folder();
    const plugins = (byte: number) => [
      events({ timeout: 1, backoff: { initial: 0.02, max: 0.2 }, breaker: { initial: 0.05, max: 0.2 } }),
      webhooks({
        webhooks: [
          {
            name: "mine",
            url: `${control().url}/webhooks`,
            secret: `whsec_${Buffer.alloc(32, byte).toString("base64")}`,
          },
        ],
        allowPrivate: true,
      }),
    ];
    await control().obey({ mode: "503" });
    const first = await serve({ plugins: plugins(1) });
    await workThrough(first.service, "job-1");
    await first.service.close();
    await control().obey({ mode: "ok" });
    const hooks = async () => (await control().received()).filter(({ kind }) => kind === "webhook");
    const before = (await hooks()).length;

    await serve({ plugins: plugins(2) });
    await expect
      .poll(async () => (await hooks()).length, { timeout: 10_000 })
      .toBeGreaterThanOrEqual(before + 5);

    for (const { headers, body, key } of (await hooks()).slice(before)) {
      const signed = `${key}.${headers["webhook-timestamp"]}.${JSON.stringify(body)}`;
      const expected = createHmac("sha256", Buffer.alloc(32, 2)).update(signed).digest("base64");
      expect(headers["webhook-signature"]).toBe(`v1,${expected}`);
    }
  },
  "Secrets of receivers": [
    "http/receivers",
    "while a secret changes, both are accepted, and both are masked",
  ],
  "Key of the control system": ["events/outage", "does not know the key for a while"],
  "URL of the database with its password": [
    "deploy/server-database",
    "has its jobs over updates, a new image of the database, and a removal",
  ],
  "Credentials of a bucket": [
    "storage/drivers",
    "that the provider no longer accepts are renewed, and the request is repeated",
  ],
  "Sessions, tokens of browsers, links": [
    "admin/session",
    "shows who is signed in, and signs out one or all of them",
  ],
  "Parameters of agents": async () => {
    const server = await (await folder())();
    const store = async (TOKEN: string) => {
      const json = JSON.stringify({ TOKEN });
      const parameters_encrypted = await (await server.request("/utils/encrypt", { json })).json();
      await server.request("/agents/payer/parameters", { json: { parameters_encrypted } });
    };
    await store("planted-4711");
    await server.request("/agents/payer/jobs", {
      json: { job_context: { job_id: "job-1" }, job_fields: {} },
    });
    await expect.poll(async () => (await show(server, "job-1")).status).toBe("awaiting");

    await store("another-one-that-is-longer");

    await finish(server);
  },
  "What svc deploy signs in with: a cloud's login, ssh, a registry": [
    "platforms/vault-secrets",
    "reaches the service, which may read it; svc neither reads nor removes it",
  ],
};

const nameOf = (row: string) =>
  row
    .replace(/\[([^\]]+)\]\([^)]+\)/g, "$1")
    .replace(/ \(`.*\)$/, "")
    .replaceAll("`", "");

it("the table of all keys has each variable that is a credential, and each row a proof", () => {
  const variables = describeSettings().match(/\bSERVICE_[A-Z_]*[A-Z]\b/g) ?? [];
  const env: Record<string, string | undefined> = Object.fromEntries(
    [...variables, "SERVICE_DATABASE_URL"].map((name) => [name, "x"]),
  );
  const all = Object.keys(env);
  takeVariables(env);
  const secret = all.filter((name) => env[name] === undefined);

  expect(secret.length).toBeGreaterThan(5);
  expect(secret.filter((name) => !TABLE.includes(`\`${name}\``))).toEqual([]);
  expect(Object.keys(PROOFS)).toEqual(ROWS.map(nameOf));
});

it.each(Object.entries(PROOFS))(
  "%s: replaced as the table of all keys says, shown here or by a test that exists",
  async (_, proof) => {
    if (typeof proof === "function") return proof();
    const [file, title] = proof;
    expect(read(`test/${file}.test.ts`)).toContain(title);
  },
);
