import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStorage, type Driver } from "unstorage";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type AzureOptions, azureDriver } from "../../src/core/storage/azure.ts";
import { fileDriver } from "../../src/core/storage/file.ts";
import { gcsDriver } from "../../src/core/storage/gcs.ts";
import { s3Driver } from "../../src/core/storage/s3.ts";
import type { CreatingStorageDriver } from "../../src/core/storage/storage-driver.ts";
import { type AzureServer, startAzure } from "./azure-server.ts";
import { type GcsServer, startGcs } from "./gcs-server.ts";
import { cutOff, type Fault, type ObjectServer } from "./object-server.ts";
import { type S3Server, startS3 } from "./s3-server.ts";

const LIMITS = { timeout: 5000, patience: 5000, random: () => 0 };
const HASTY = { timeout: 300, patience: 0, random: () => 0 };
const BYTES = Buffer.from(Array.from({ length: 256 }, (_, at) => at));

let s3: S3Server;
let gcs: GcsServer;
let azure: AzureServer;
beforeAll(async () => {
  s3 = await startS3(["agents"]);
  gcs = await startGcs(["agents"]);
  azure = await startAzure(["agents"]);
});
afterAll(async () => {
  await s3.close();
  await gcs.close();
  await azure.close();
});

const s3Env = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };
const toS3 = (options: object = {}) =>
  s3Driver({
    ...{ bucket: "agents", endpoint: s3.url, region: s3.region, conditional: true, env: s3Env },
    ...{ ...LIMITS, prefix: folderName(), ...options },
  }) as CreatingStorageDriver;
const toGcs = (options: object = {}) =>
  gcsDriver({
    ...{ bucket: "agents", endpoint: gcs.url, prefix: folderName() },
    token: async () => ({ token: "ya29.test-token", expires: Number.POSITIVE_INFINITY }),
    ...{ ...LIMITS, ...options },
  });
const toAzure = ({ bucket = "agents", ...options }: { bucket?: string } & Partial<AzureOptions> = {}) =>
  azureDriver({
    ...{ account: azure.account, container: bucket, endpoint: azure.url, prefix: folderName() },
    ...{ env: { AZURE_STORAGE_KEY: azure.key }, ...LIMITS, ...options },
  });
function toFile(): CreatingStorageDriver {
  return fileDriver({ folder: join(newFolder(), "not", "yet") });
}

let folders = 0;
const folderName = () => `tests/${++folders}`;

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-storage-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Disturbs the requests of a test. */
function disturb(server: ObjectServer, fault: Fault): void {
  const { buckets } = server;
  buckets.fault = fault;
  onTestFinished(() => {
    buckets.fault = undefined;
    buckets.full = false;
    buckets.denied.clear();
    buckets.pageSize = 1000;
  });
}

describe.each([
  { name: "s3", open: () => toS3() },
  { name: "gcs", open: () => toGcs() },
  { name: "azure", open: () => toAzure() },
  { name: "file", open: toFile },
])("the driver $name", ({ open }) => {
  it("returns the bytes that were written, after overwriting too", async () => {
    const driver = open();

    await driver.setItemRaw("a:b.bin", Buffer.from("first"));
    await driver.setItemRaw("a:b.bin", BYTES);
    await driver.setItemRaw("a:empty", new Uint8Array());

    expect(Buffer.compare((await driver.getItemRaw("a:b.bin")) as Buffer, BYTES)).toBe(0);
    expect((await driver.getItemRaw("a:empty")) as Buffer).toHaveLength(0);
    expect([await driver.hasItem("a:b.bin"), await driver.hasItem("a:c")]).toEqual([true, false]);
  });

  it("has nothing under keys that were never written, or were removed", async () => {
    const driver = open();
    await driver.setItemRaw("x", BYTES);

    await driver.removeItem("x");
    await driver.removeItem("x");

    expect(await driver.getItemRaw("x")).toBeNull();
    expect(await driver.getItemRaw("y")).toBeNull();
    expect(await driver.getKeys("")).toEqual([]);
  });

  it("lists the keys of a folder only", async () => {
    const driver = open();
    for (const key of ["one:a", "one:two:b", "oner:c", "d"]) await driver.setItemRaw(key, BYTES);

    expect((await driver.getKeys("")).sort()).toEqual(["d", "one:a", "one:two:b", "oner:c"]);
    expect((await driver.getKeys("one:")).sort()).toEqual(["one:a", "one:two:b"]);
  });

  it("creates an item once, however many try at the same moment", async () => {
    const driver = open();
    const values = ["a", "b", "c", "d"].map((text) => Buffer.from(text));

    const created = await Promise.all(values.map((value) => driver.createItemRaw("owner", value)));

    expect(created.filter(Boolean)).toHaveLength(1);
    expect(await driver.getItemRaw("owner")).toEqual(values[created.indexOf(true)]);
  });

  it("refuses keys that leave their folder", async () => {
    const driver = open();

    for (const key of ["..:a", "a:..", ".", "a::b", "a/../b"])
      await expect(async () => driver.setItemRaw(key, BYTES)).rejects.toThrow("not a valid key");
  });

  it("is a driver of unstorage", async () => {
    const storage = createStorage({ driver: open() as Driver });

    await storage.setItemRaw("folder/bytes", BYTES);
    await storage.setItem("folder:text", "hello");

    expect(Buffer.compare((await storage.getItemRaw<Buffer>("folder:bytes"))!, BYTES)).toBe(0);
    expect(await storage.getItem("folder:text")).toBe("hello");
    expect((await storage.getKeys("folder")).sort()).toEqual(["folder:bytes", "folder:text"]);
    expect(await storage.getKeys()).toEqual(expect.arrayContaining(["folder:bytes", "folder:text"]));
  });
});

describe.each([
  { name: "s3", open: toS3, server: () => s3 as ObjectServer },
  { name: "gcs", open: toGcs, server: () => gcs as ObjectServer },
  { name: "azure", open: toAzure, server: () => azure as ObjectServer },
])("the driver $name, over a network that fails", ({ name, open, server }) => {
  /** The first request of a kind has a fault. */
  function once(kinds: readonly string[], act: NonNullable<Fault>): { count: number } {
    const state = { count: 0 };
    disturb(server(), (seen, proceed) => {
      if (!kinds.includes(seen.kind) || state.count++ > 0) return undefined;
      return act(seen, proceed);
    });
    return state;
  }
  const slowDown = name === "s3" ? "<Error><Code>SlowDown</Code></Error>" : "{}";

  it("lists all pages", async () => {
    const driver = open();
    const keys = Array.from({ length: 25 }, (_, at) => `page:${String(at).padStart(2, "0")}`);
    await Promise.all(keys.map((key) => driver.setItemRaw(key, BYTES)));
    disturb(server(), () => undefined);
    server().buckets.pageSize = 10;

    expect(await driver.getKeys("page:")).toEqual(keys);
  });

  it.each([429, 500, 502, 503])("repeats a request that gets status %i", async (status) => {
    const driver = open();
    const seen = once(["write"], async () => ({ status, headers: { "retry-after": "0" }, body: slowDown }));

    await driver.setItemRaw("k", BYTES);

    expect(seen.count).toBe(2);
    expect(await driver.getItemRaw("k")).toEqual(BYTES);
  });

  it("waits as long as the provider asks before it repeats a request", async () => {
    const driver = open({ patience: 2000 });
    once(["write"], async () => ({ status: 429, headers: { "retry-after": "60" }, body: slowDown }));

    const failure = driver.setItemRaw("k", BYTES);

    // A minute is longer than its patience.
    await expect(failure).rejects.toMatchObject({ reason: "throttled", type: "storage_error", status: 503 });
  });

  it("repeats a request whose connection is cut, before or after it took effect", async () => {
    const driver = open();
    once(["write"], async () => undefined);
    await driver.setItemRaw("before", BYTES);
    once(["write"], async (_, proceed) => void (await proceed()) as undefined);
    await driver.setItemRaw("after", BYTES);

    expect(await driver.getKeys("")).toEqual(["after", "before"]);
  });

  it("creates an item although the response was lost, and knows it as its own", async () => {
    const driver = open();
    once(["create"], async (_, proceed) => void (await proceed()) as undefined);

    expect(await driver.createItemRaw("owner", Buffer.from("me"))).toBe(true);
    expect(await driver.createItemRaw("owner", Buffer.from("other"))).toBe(false);
  });

  it("reads again what arrived in part", async () => {
    const driver = open();
    await driver.setItemRaw("k", BYTES);
    const seen = once(["read"], async (_, proceed) => cutOff(await proceed()));

    expect(await driver.getItemRaw("k")).toEqual(BYTES);
    expect(seen.count).toBe(2);
  });

  it("reads again what arrived with other bytes", async () => {
    const driver = open();
    await driver.setItemRaw("k", BYTES);
    const seen = once(["read"], async (_, proceed) => ({ ...(await proceed()), body: Buffer.alloc(256) }));

    expect(await driver.getItemRaw("k")).toEqual(BYTES);
    expect(seen.count).toBe(2);
  });

  it("uploads again what arrived in part, and stores nothing of it before", async () => {
    const driver = open();
    const stored: boolean[] = [];
    const seen = once(["write"], async (_, proceed) => {
      const answer = await proceed({ raw: Buffer.from("half an upload") });
      stored.push(
        server()
          .buckets.names("agents", "")
          .some((path) => path.endsWith("/truncated")),
      );
      return answer;
    });

    await driver.setItemRaw("truncated", BYTES);

    expect(stored).toEqual([false]);
    expect(seen.count).toBe(2);
    expect(await driver.getItemRaw("truncated")).toEqual(BYTES);
  });

  it("gives up on a provider that does not respond, and says so", async () => {
    const driver = open(HASTY);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    disturb(server(), async () => {
      await held;
      return { status: 503 };
    });

    await expect(driver.getItemRaw("k")).rejects.toMatchObject({
      reason: "unavailable",
      message: `The ${name === "azure" ? "container" : "bucket"} "agents" does not respond as it should (it did not respond in time)`,
    });
    release();
  });

  it("says that the bucket is full", async () => {
    disturb(server(), () => undefined);
    server().buckets.full = true;

    await expect(open().setItemRaw("k", BYTES)).rejects.toMatchObject({ reason: "full", status: 507 });
  });

  it("says which rights are missing, without repeating the request", async () => {
    disturb(server(), () => undefined);
    server().buckets.denied.add("write");
    const before = server().buckets.seen.length;

    await expect(open().setItemRaw("k", BYTES)).rejects.toMatchObject({
      reason: "denied",
      detail: expect.stringContaining("read, write, list and delete"),
    });
    expect(server().buckets.seen.length - before).toBe(1);
  });

  it("says that the bucket is gone, and never takes this for an empty one", async () => {
    const driver = open({ bucket: "deleted" });

    await expect(driver.getItemRaw("k")).rejects.toMatchObject({ reason: "gone" });
    await expect(driver.getKeys("")).rejects.toMatchObject({ reason: "gone" });
    await expect(driver.removeItem("k")).rejects.toMatchObject({ reason: "gone" });
  });

  it("does what the provider's contract allows, and no more", () => {
    expect(server().buckets.violations).toEqual([]);
  });
});

describe("credentials of Azure", () => {
  /** Answers those who ask for a token, each time with another one. */
  function issuer(match: (url: URL, init: RequestInit | undefined) => boolean, seconds = 3600) {
    const issued: string[] = [];
    const answering: typeof fetch = async (input, init) => {
      const url = new URL(String(input));
      if (url.origin === new URL(azure.url).origin) return fetch(input, init);
      if (!match(url, init)) return Response.json({ error: "invalid_client" }, { status: 400 });
      issued.push(`token-${randomUUID()}`);
      azure.tokens.set(issued.at(-1)!, Date.now() + 3_600_000);
      return Response.json({ access_token: issued.at(-1), expires_in: seconds });
    };
    return { issued, fetch: answering };
  }

  it("come from the identity of an app or a container, and are renewed before they expire", async () => {
    const env = { IDENTITY_ENDPOINT: "http://localhost:42356/msi/token", IDENTITY_HEADER: "hdr" };
    const { issued, fetch } = issuer(
      (url, init) =>
        url.host === "localhost:42356" &&
        url.searchParams.get("resource") === "https://storage.azure.com/" &&
        new Headers(init?.headers).get("x-identity-header") === "hdr",
      60,
    );
    const driver = toAzure({ env, fetch });

    await driver.setItemRaw("a", BYTES);
    await Promise.all(["b", "c"].map((key) => driver.setItemRaw(key, BYTES)));

    expect(issued).toHaveLength(2);
  });

  it("come from the identity of a virtual machine, and are replaced when the provider no longer accepts them", async () => {
    const { issued, fetch } = issuer(
      (url, init) => url.host === "169.254.169.254" && new Headers(init?.headers).get("metadata") === "true",
    );
    const driver = toAzure({ env: {}, fetch });
    await driver.setItemRaw("a", BYTES);
    azure.tokens.clear();

    await driver.setItemRaw("b", BYTES);

    expect(issued).toHaveLength(2);
  });

  it("come from the token of a pod, and from the secret of an app", async () => {
    const file = join(newFolder(), "token");
    writeFileSync(file, "pod-token\n");
    const { issued, fetch } = issuer((url, init) => {
      const form = new URLSearchParams(Buffer.from(init?.body as Uint8Array).toString());
      const proof = form.get("client_assertion") ?? form.get("client_secret");
      return url.pathname === "/t/oauth2/v2.0/token" && ["pod-token", "app-secret"].includes(proof ?? "");
    });
    const app = { AZURE_TENANT_ID: "t", AZURE_CLIENT_ID: "c" };

    await toAzure({ env: { ...app, AZURE_FEDERATED_TOKEN_FILE: file }, fetch }).setItemRaw("a", BYTES);
    await toAzure({ env: { ...app, AZURE_CLIENT_SECRET: "app-secret" }, fetch }).setItemRaw("a", BYTES);
    const wrong = toAzure({ env: { ...app, AZURE_CLIENT_SECRET: "hunter2" }, fetch }).setItemRaw("a", BYTES);

    await expect(wrong).rejects.toMatchObject({
      message: expect.stringContaining("the app in Entra ID (400 invalid_client)"),
      detail: expect.stringContaining("Storage Blob Data Contributor"),
    });
    await expect(wrong).rejects.not.toThrow("hunter2");
    expect(issued).toHaveLength(2);
  });

  it("that are wrong, and a wrong clock, have errors of their own, without the credentials", async () => {
    const key = Buffer.from("another key").toString("base64");
    const credentials = { token: "tok-secret", expires: Number.POSITIVE_INFINITY };

    await expect(toAzure({ credentials: { key } }).getItemRaw("a")).rejects.toMatchObject({
      reason: "denied",
      message: expect.stringContaining("AuthenticationFailed"),
    });
    await expect(
      toAzure({ now: () => new Date(Date.now() + 47 * 60_000) }).getItemRaw("a"),
    ).rejects.toMatchObject({
      reason: "clock",
    });
    await expect(toAzure({ credentials }).getItemRaw("a")).rejects.toThrow(
      "Lifetime validation failed: … has",
    );
  });
});

describe("credentials of S3", () => {
  it("that expire are renewed before a request fails, once for requests that wait together", async () => {
    let made = 0;
    const credentials = async () => {
      made += 1;
      s3.keys.set(`ROLE${made}`, { id: `ROLE${made}`, secret: `secret${made}`, token: `token${made}` });
      const expires = Date.now() + (made === 1 ? 60_000 : 3_600_000);
      return {
        accessKeyId: `ROLE${made}`,
        secretAccessKey: `secret${made}`,
        sessionToken: `token${made}`,
        expires,
      };
    };
    const driver = toS3({ credentials });

    await driver.setItemRaw("a", BYTES);
    await Promise.all(["b", "c", "d"].map((key) => driver.setItemRaw(key, BYTES)));

    expect(made).toBe(2);
  });

  it("that the provider no longer accepts are renewed, and the request is repeated", async () => {
    let made = 0;
    const credentials = async () => {
      made += 1;
      const expires = made === 1 ? Date.now() - 1000 : undefined;
      s3.keys.set("OLD", { id: "OLD", secret: "old", token: `t${made}`, ...(expires ? { expires } : {}) });
      return { accessKeyId: "OLD", secretAccessKey: "old", sessionToken: `t${made}` };
    };

    await toS3({ credentials }).setItemRaw("a", BYTES);

    expect(made).toBe(2);
  });

  it("are in no error, also where the provider repeats them", async () => {
    const credentials = {
      accessKeyId: "AKIDTEST",
      secretAccessKey: "s3-test-secret",
      sessionToken: "tok-secret",
    };

    const error = await toS3({ credentials })
      .getItemRaw("a")
      .catch((failure: unknown) => failure);

    expect(error).toMatchObject({
      reason: "denied",
      message: expect.stringContaining("The provided token … is"),
    });
    expect(JSON.stringify([error, String((error as Error).stack)])).not.toMatch(/tok-secret|s3-test-secret/);
  });

  it("with a wrong secret, another region or a wrong clock have errors of their own", async () => {
    const secretAccessKey = "wrong";
    const ahead = () => new Date(Date.now() + 47 * 60_000);

    await expect(
      toS3({ credentials: { accessKeyId: "AKIDTEST", secretAccessKey } }).getItemRaw("a"),
    ).rejects.toThrow("SignatureDoesNotMatch");
    await expect(toS3({ region: "us-east-1" }).getItemRaw("a")).rejects.toMatchObject({
      detail: "The bucket is in the region eu-test-1: set this region.",
    });
    await expect(toS3({ now: ahead }).getItemRaw("a")).rejects.toMatchObject({
      reason: "clock",
      message: expect.stringContaining("47 minutes ahead"),
    });
  });

  it("come from the role of a container", async () => {
    const role = { id: "CONTAINER", secret: "c-secret", token: "c-token" };
    s3.keys.set(role.id, role);
    const fetchRole: typeof fetch = async (input, init) => {
      if (String(input) !== "http://169.254.170.2/v2/credentials/x") return fetch(input, init);
      const Expiration = new Date(Date.now() + 3_600_000).toISOString();
      return Response.json({
        AccessKeyId: role.id,
        SecretAccessKey: role.secret,
        Token: role.token,
        Expiration,
      });
    };
    const env = { HOME: newFolder(), AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: "/v2/credentials/x" };

    await toS3({ env, fetch: fetchRole }).setItemRaw("a", BYTES);
  });

  it("come from the role of an instance, by a session of its metadata service", async () => {
    s3.keys.set("INSTANCE", { id: "INSTANCE", secret: "i-secret", token: "i-token" });
    const fetchRole: typeof fetch = async (input, init) => {
      const url = new URL(String(input));
      if (url.host !== "169.254.169.254") return fetch(input, init);
      if (init?.method === "PUT") return new Response("session");
      if (new Headers(init?.headers).get("x-aws-ec2-metadata-token") !== "session")
        return new Response("", { status: 401 });
      if (url.pathname.endsWith("/security-credentials/")) return new Response("agents-role\n");
      const Expiration = new Date(Date.now() + 3_600_000).toISOString();
      return Response.json({
        AccessKeyId: "INSTANCE",
        SecretAccessKey: "i-secret",
        Token: "i-token",
        Expiration,
      });
    };

    await toS3({ env: { HOME: newFolder() }, fetch: fetchRole }).setItemRaw("a", BYTES);
  });

  it("come from the token of a pod, and from a profile", async () => {
    s3.keys.set("POD", { id: "POD", secret: "p-secret", token: "p-token" });
    const home = newFolder();
    writeFileSync(join(home, "token"), "pod-token\n");
    const fetchRole: typeof fetch = async (input, init) => {
      if (!String(input).startsWith("https://sts.eu-test-1.amazonaws.com/")) return fetch(input, init);
      const sent = new URLSearchParams(String(init?.body && Buffer.from(init.body as Uint8Array)));
      if (sent.get("WebIdentityToken") !== "pod-token") return new Response("", { status: 403 });
      return new Response(
        "<Credentials><AccessKeyId>POD</AccessKeyId><SecretAccessKey>p-secret</SecretAccessKey><SessionToken>p-token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>",
      );
    };
    const env = {
      AWS_REGION: "eu-test-1",
      AWS_ROLE_ARN: "arn:aws:iam::1:role/x",
      AWS_WEB_IDENTITY_TOKEN_FILE: join(home, "token"),
    };
    await toS3({ env: { HOME: home, ...env }, fetch: fetchRole }).setItemRaw("a", BYTES);

    mkdirSync(join(home, ".aws"));
    writeFileSync(
      join(home, ".aws", "credentials"),
      "[other]\naws_access_key_id = X\n[work]\naws_access_key_id = AKIDTEST\naws_secret_access_key = s3-test-secret\n",
    );
    await toS3({ env: { HOME: home, AWS_PROFILE: "work" } }).setItemRaw("b", BYTES);
  });

  it("that are missing are an error that names what to set", async () => {
    const env = { HOME: newFolder(), AWS_EC2_METADATA_DISABLED: "true" };

    await expect(toS3({ env }).getItemRaw("a")).rejects.toMatchObject({
      reason: "denied",
      detail: expect.stringContaining("AWS_ACCESS_KEY_ID"),
    });
  });
});

describe("credentials of Google", () => {
  it("come from the machine's service account and are renewed once they are refused", async () => {
    let made = 0;
    const fetchToken: typeof fetch = async (input, init) => {
      if (!String(input).startsWith("http://metadata.google.internal/")) return fetch(input, init);
      if (new Headers(init?.headers).get("metadata-flavor") !== "Google")
        return new Response("", { status: 403 });
      made += 1;
      gcs.tokens.set(`machine-${made}`, made === 1 ? 0 : Number.POSITIVE_INFINITY);
      return Response.json({ access_token: `machine-${made}`, expires_in: 3600, token_type: "Bearer" });
    };
    const driver = toGcs({ token: undefined, env: { HOME: newFolder() }, fetch: fetchToken });

    await driver.setItemRaw("a", BYTES);
    await driver.setItemRaw("b", BYTES);

    expect(made).toBe(2);
  });

  it("are never sent over a connection that others can read", () => {
    expect(() => gcsDriver({ bucket: "agents", endpoint: "http://storage.example.com" })).toThrow(
      "use https",
    );
  });

  it("that are missing are an error that names what to do", async () => {
    const fetchNothing: typeof fetch = async () => {
      throw new TypeError("fetch failed", {
        cause: new Error("getaddrinfo ENOTFOUND metadata.google.internal"),
      });
    };

    await expect(
      toGcs({ token: undefined, env: { HOME: newFolder() }, fetch: fetchNothing, patience: 0 }).getItemRaw(
        "a",
      ),
    ).rejects.toMatchObject({ detail: expect.stringContaining("GOOGLE_APPLICATION_CREDENTIALS") });
  });
});

describe("the driver file", () => {
  it("leaves nothing beside the item that it has written, and ignores what a crash has left", async () => {
    const folder = newFolder();
    const driver = fileDriver({ folder });
    writeFileSync(join(folder, ".6a1f2c52-5a3e-4a8e-9d0f-1b2c3d4e5f60.tmp"), "half");

    await driver.setItemRaw("a", BYTES);
    await driver.createItemRaw("a", Buffer.from("second"));

    expect(readdirSync(folder)).toEqual([".6a1f2c52-5a3e-4a8e-9d0f-1b2c3d4e5f60.tmp", "a"]);
    expect(await driver.getKeys("")).toEqual(["a"]);
  });

  it("a list removes what a crash has left of a write a day ago, and the folder that was made for it", async () => {
    const folder = newFolder();
    const [old, young] = [`.${randomUUID()}.tmp`, `.${randomUUID()}.tmp`];
    for (const name of ["one", "two"]) mkdirSync(join(folder, name));
    for (const path of [join("one", old), join("two", young)]) writeFileSync(join(folder, path), "half");
    const yesterday = new Date(Date.now() - 25 * 3_600_000);
    utimesSync(join(folder, "one", old), yesterday, yesterday);

    expect(await fileDriver({ folder }).getKeys("")).toEqual([]);

    expect(readdirSync(folder)).toEqual(["two"]);
    expect(readdirSync(join(folder, "two"))).toEqual([young]);
  });

  it("a list of a folder does not read others", async () => {
    const folder = newFolder();
    const driver = fileDriver({ folder });
    for (const key of ["a:b:c", "a:bc:d", "b:c"]) await driver.setItemRaw(key, BYTES);
    // A list that reads its folder removes it.
    const other = join(folder, "b", `.${randomUUID()}.tmp`);
    writeFileSync(other, "half");
    utimesSync(other, new Date(0), new Date(0));

    expect(await driver.getKeys("a:b")).toEqual(["a:b:c", "a:bc:d"]);
    expect(await driver.getKeys("a:b:")).toEqual(["a:b:c"]);

    expect(readdirSync(join(folder, "b"))).toHaveLength(2);
  });

  it("leaves no folder behind that has no items, and writes to one that is removed meanwhile", async () => {
    const folder = newFolder();
    const driver = fileDriver({ folder });
    await driver.setItemRaw("kept:item", BYTES);
    await driver.setItemRaw("a:b:first", BYTES);
    await driver.setItemRaw("a:b:second", BYTES);

    await driver.removeItem("a:b:first");
    expect(await driver.getKeys("a")).toEqual(["a:b:second"]);
    await driver.removeItem("a:b:second");
    expect(readdirSync(folder)).toEqual(["kept"]);

    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let round = 0; round < 50; round++) {
        await driver.setItemRaw(`a:b:${writer}`, BYTES);
        expect(await driver.getKeys("")).toEqual(expect.arrayContaining([`a:b:${writer}`, "kept:item"]));
        await driver.removeItem(`a:b:${writer}`);
      }
    });
    await Promise.all(writers);
    expect(readdirSync(folder)).toEqual(["kept"]);
  });

  it("says that a folder cannot be used", async () => {
    const folder = join(newFolder(), "file");
    writeFileSync(folder, "");

    await expect(fileDriver({ folder }).setItemRaw("a", BYTES)).rejects.toMatchObject({
      type: "storage_error",
      detail: "Check the disk and the rights of the folder.",
    });
  });
});
