import { hash } from "node:crypto";
import { request as send } from "node:http";
import { defineAgent, file } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";
import { until } from "../runs/_jobs.ts";

/*
 * Strangers with a starter key, and a browser with a token of a job, try to reach the files of others, and to lose them.
 */

const keeper = defineAgent({
  name: "Keeper",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ paper: v.optional(file()), note: v.optional(v.unknown()) }),
      run: async ({ job, fields }) => ({
        text: fields.paper ? await job.step("read", () => job.open(fields.paper!).text()) : "",
        report: await job.file("report.txt", `secret report of ${job.id}`),
      }),
    },
  },
});

const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;
const OWNER = { "x-api-key": keyOf("one") };
const STRANGER = { "x-api-key": keyOf("two") };
const TUS = { "tus-resumable": "1.0.0" };
const SECRET = "secret of the paper";

let server: TestServer;
beforeAll(async () => {
  const keys = ["one", "two"].map((name) => ({
    ...{ name, role: "starter" as const, sha256: hash("sha256", keyOf(name), "hex") },
  }));
  server = await testServer({ agents: [keeper], access: { keys } });
});
afterAll(() => server[Symbol.asyncDispose]());

type Init = Omit<RequestInit, "headers"> & { readonly headers: Record<string, string> };
const ask = (path: string, init: Init) => fetch(server.url + path, init);

async function upload(content: string | Uint8Array, headers: Record<string, string>, name = "paper.txt") {
  const sent = await ask(`/files?name=${encodeURIComponent(name)}`, {
    ...{ method: "POST", headers: { ...headers, "content-type": "text/plain" }, body: content as never },
  });
  expect(sent.status).toBe(201);
  return (await sent.json()) as { upload: string; sha256: string; name: string };
}

async function start(id: string, fields: object, headers: Record<string, string>) {
  const body = JSON.stringify({ job_context: { job_id: id }, job_fields: fields });
  const type = { "content-type": "application/json" };
  return ask("/agents/keeper/jobs", { method: "POST", headers: { ...headers, ...type }, body });
}

async function tokenOf(job: string, scopes: readonly string[]): Promise<Record<string, string>> {
  const made = await server.request(`/jobs/${job}/tokens`, { json: { scopes } });
  return { authorization: `Bearer ${((await made.json()) as { token: string }).token}` };
}

/** Makes room for an upload, and sends the first half. */
async function half(headers: Record<string, string>): Promise<string> {
  const begun = await ask("/files?name=half.txt", {
    ...{ method: "POST", headers: { ...headers, ...TUS, "upload-length": String(2 * SECRET.length) } },
  });
  const { upload } = (await begun.json()) as { upload: string };
  expect((await patch(upload, { headers, offset: 0, text: SECRET })).status).toBe(204);
  return upload;
}

function patch(
  id: string,
  { headers, offset, text }: { headers: Record<string, string>; offset: number; text: string },
  at = "/files",
) {
  const type = { "content-type": "application/offset+octet-stream", "upload-offset": String(offset) };
  return ask(`${at}/${id}`, { method: "PATCH", headers: { ...headers, ...TUS, ...type }, body: text });
}

it("an upload of somebody else cannot be asked about, continued, removed or used", async () => {
  const owned = await half(OWNER);
  expect((await start("of-two", {}, STRANGER)).status).toBe(202);
  await until(server.service, "of-two", ["completed"]);
  const token = await tokenOf("of-two", ["status", "record", "answer"]);
  for (const [headers, at] of [
    [STRANGER, "/files"],
    [token, "/jobs/of-two/uploads"],
  ] as const) {
    const outcomes = await Promise.all([
      ask(`${at}/${owned}`, { headers }),
      ask(`${at}/${owned}`, { headers, method: "HEAD" }),
      patch(owned, { headers, offset: SECRET.length, text: SECRET }, at),
      ask(`${at}/${owned}`, { headers, method: "DELETE" }),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  }
  expect((await start("stolen", { paper: { upload: owned } }, STRANGER)).status).toBe(404);

  const rest = await patch(owned, { headers: OWNER, offset: SECRET.length, text: SECRET });
  expect([rest.status, rest.headers.get("upload-offset")]).toEqual([204, String(2 * SECRET.length)]);
});

it("a file of somebody else's job is read neither by its hash, nor in ranges, nor by a token of another job", async () => {
  const paper = await upload(SECRET, OWNER);
  expect((await start("of-one", { paper: { upload: paper.upload } }, OWNER)).status).toBe(202);
  expect((await start("own", {}, STRANGER)).status).toBe(202);
  await Promise.all(["of-one", "own"].map((id) => until(server.service, id, ["completed"])));
  const token = await tokenOf("own", ["status", "record", "answer"]);
  const shown: string[] = [];
  for (const headers of [STRANGER, token])
    for (const job of ["of-one", "own"])
      for (const path of [`/jobs/${job}/files/${paper.sha256}`, `/admin/jobs/${job}/files/${paper.sha256}`])
        for (const more of [{}, { range: "bytes=0-3" }, { "if-none-match": `"${paper.sha256}"` }] as Record<
          string,
          string
        >[]) {
          const got = await ask(`${path}?inline=true`, { headers: { ...headers, ...more } });
          if (got.status < 400) shown.push(`${path} ${got.status}`);
          expect(await got.text()).not.toContain("secr");
        }
  expect(shown).toEqual([]);
  // A stranger who knows the whole value, and one who puts it where no file is expected.
  const value = { name: "paper.txt", type: "text/plain", size: SECRET.length, sha256: paper.sha256 };
  expect((await start("forged", { paper: value }, STRANGER)).status).toBe(422);
  expect((await start("hidden", { note: value }, STRANGER)).status).toBe(202);
  await until(server.service, "hidden", ["completed"]);
  expect((await ask(`/jobs/hidden/files/${paper.sha256}`, { headers: STRANGER })).status).toBe(404);
  // Who is shown the state of the own job reads what its result has, and not what it was given.
  const status = await tokenOf("of-one", ["status"]);
  const listed = (await (await server.request("/jobs/of-one/files")).json()) as {
    name: string;
    sha256: string;
  }[];
  const report = listed.find(({ name }) => name === "report.txt")!.sha256;
  const read = (sha256: string) => ask(`/jobs/of-one/files/${sha256}`, { headers: status });
  expect([(await read(report)).status, (await read(paper.sha256)).status]).toEqual([200, 403]);
});

it("names are neither paths, nor headers, nor longer than names are, however they are sent", async () => {
  const wild = `..\\../..//\u202e\u0000\r\nx-evil: 1\u2066${"ü".repeat(10_000)}`;
  const formWith = (name: string) => {
    const body = new FormData();
    body.append("file", new Blob(["a"], { type: "text/plain" }), name);
    return ask("/files", { method: "POST", headers: OWNER, body });
  };
  expect((await formWith(wild)).status).toBe(400);
  const metadata = (name: string) => `filename ${Buffer.from(name).toString("base64")}`;
  const sent = await Promise.all([
    formWith(wild.slice(0, 1000)),
    ask("/files", {
      ...{
        method: "POST",
        headers: { ...OWNER, ...TUS, "upload-length": "0", "upload-metadata": metadata(wild.slice(0, 3000)) },
      },
    }),
    ask(`/files?name=${encodeURIComponent(`${"a/".repeat(100)}\u0000..`)}`, {
      method: "POST",
      headers: OWNER,
    }),
  ]);
  const names: string[] = [];
  for (const one of sent) {
    expect(one.status).toBe(201);
    const { name, upload } = (await one.json()) as { name: string; upload: string };
    names.push(name);
    const id = `named-${names.length}`;
    expect((await start(id, { paper: { upload } }, OWNER)).status).toBe(202);
    await until(server.service, id, ["completed"]);
    const [first] = (await (await server.request(`/jobs/${id}/files`)).json()) as { sha256: string }[];
    const got = await server.request(`/jobs/${id}/files/${first!.sha256}`);
    expect([got.status, got.headers.get("x-evil")]).toEqual([200, null]);
    expect(got.headers.get("content-disposition")).toMatch(
      /^attachment; filename="[^"\\/]*"; filename\*=UTF-8''[\w.%~-]+$/,
    );
  }
  for (const name of names) {
    expect(name.length).toBeLessThanOrEqual(200);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what names must not have.
    expect(name).not.toMatch(/[/\\\u0000-\u001f\u202a-\u202e\u2066-\u2069]|^\.+$/);
  }
});

it("a content that is sent again while the last job that has it is removed is there for the next one", async () => {
  for (let round = 0; round < 15; round++) {
    const first = await upload(SECRET.repeat(3), OWNER);
    const [before, after] = [`old-${round}`, `new-${round}`];
    expect((await start(before, { paper: { upload: first.upload } }, OWNER)).status).toBe(202);
    await until(server.service, before, ["completed"]);
    const discard = (id: string) => ask(`/files/${id}`, { method: "DELETE", headers: OWNER });
    await discard(first.upload);
    const remove = (id: string) =>
      server.request(`/admin/api/jobs/${id}?permanent=true`, { method: "DELETE" });
    const [, again] = await Promise.all([remove(before), upload(SECRET.repeat(3), OWNER)]);
    const isDiscarded = round % 2 === 1;
    const [started] = await Promise.all([
      start(after, { paper: { upload: again.upload } }, OWNER),
      isDiscarded && discard(again.upload),
    ]);
    // An upload that is discarded was removed before it was used, or is kept from then on.
    expect(isDiscarded ? [202, 404] : [202]).toContain(started.status);
    if (started.status === 404) continue;
    const job = await until(server.service, after, ["completed"]);
    expect(job.result).toMatchObject({ text: SECRET.repeat(3) });
    await discard(again.upload);
    await remove(after);
  }
});

it("a download continues to its end where its job is removed meanwhile", async () => {
  const content = Buffer.alloc(13_000_000, "0123456789");
  const { upload: id, sha256 } = await upload(content, OWNER);
  expect((await start("going", { paper: { upload: id } }, OWNER)).status).toBe(202);
  await until(server.service, "going", ["completed"]);
  await ask(`/files/${id}`, { method: "DELETE", headers: OWNER });
  const parts: Buffer[] = [];
  let removed: Promise<Response> | undefined;
  await new Promise<void>((resolve, reject) => {
    const url = `${server.url}/jobs/going/files/${sha256}`;
    send(url, { headers: OWNER }, async (response) => {
      try {
        for await (const part of response) {
          parts.push(part as Buffer);
          removed ??= server.request("/admin/api/jobs/going?permanent=true", { method: "DELETE" });
          await removed;
        }
        resolve();
      } catch (error) {
        reject(error as Error);
      }
    }).end();
  });
  expect((await removed!).status).toBeLessThan(300);
  expect(Buffer.concat(parts).equals(content)).toBe(true);
  expect((await server.request(`/jobs/going/files/${sha256}`)).status).toBe(404);
});
