import { createHash } from "node:crypto";
import { request as send } from "node:http";
import { defineAgent, type FileValue, file } from "agent-control-service";
import { STORE } from "agent-control-service/plugin";
import type { TestServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { resolveOptions } from "../../src/core/service/options.ts";
import { describeServer } from "../_setup.ts";
import { waitFor } from "./_client.ts";

const PDF = Buffer.from("%PDF-1.7\nthe contract");

const reader = defineAgent({
  name: "Reader",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({
        contract: file({ accept: ["application/pdf"], maxSize: 1000 }),
        more: v.optional(v.array(file())),
        note: v.optional(v.unknown()),
      }),
      async run({ job, fields }) {
        const text = await job.step("read", () => job.open(fields.contract).text());
        const made = await job.step("report", async ({ file }) => ({
          files: [await file("report.txt", `report on ${text}`), await file("table.csv", "a,b\n1,2\n")],
        }));
        const whole = await job.file("whole.bin", new Uint8Array(5_000_000));
        return { text, made, whole, more: fields.more?.length ?? 0 };
      },
    },
  },
});

const forger = defineAgent({
  name: "Forger",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ given: v.unknown() }),
      run: ({ job, fields }) => job.step("read", () => job.open(fields.given as FileValue).text()),
    },
  },
});

const agents = [reader, forger];

interface Upload {
  readonly upload: string;
  readonly sha256: string;
  readonly type: string;
  readonly size: number;
}

async function upload(server: TestServer, body: Uint8Array, name = "contract.pdf", type?: string) {
  const response = await server.request(`/files?name=${encodeURIComponent(name)}`, {
    method: "POST",
    body: body as unknown as Blob,
    headers: type === undefined ? {} : { "content-type": type },
  });
  return { response, body: (await response.json()) as Upload & { error: string; error_type: string } };
}

function start(server: TestServer, agent: string, id: string, fields: object) {
  return server.request(`/agents/${agent}/jobs`, {
    json: { job_context: { job_id: id }, job_fields: fields },
  });
}

const hashOf = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex");

describeServer("files", ({ start: open }) => {
  it("an upload in a field is given to the handler, and what steps make is listed and downloaded", async () => {
    await using server = await open({ agents });
    const { response, body } = await upload(server, PDF, "Vertrag ü.pdf", "application/pdf");
    expect(response.status).toBe(201);
    expect(body).toMatchObject({ type: "application/pdf", size: PDF.length, sha256: hashOf(PDF) });

    expect((await start(server, "reader", "job-1", { contract: { upload: body.upload } })).status).toBe(202);
    await waitFor(server, "job-1", "completed");
    const job = (await (await server.request("/jobs/job-1/result")).json()) as {
      job_fields: { contract: FileValue };
      result: { text: string; made: { files: FileValue[] }; whole: FileValue };
    };
    expect(job.job_fields.contract).toEqual({
      ...{ name: "Vertrag ü.pdf", type: "application/pdf", size: PDF.length, sha256: hashOf(PDF) },
    });
    expect(job.result.text).toBe(PDF.toString());
    expect(job.result.made.files.map(({ name, type }) => `${name} ${type}`)).toEqual([
      "report.txt text/plain",
      "table.csv text/csv",
    ]);
    const listed = (await (await server.request("/jobs/job-1/files")).json()) as (FileValue & {
      origin: string;
    })[];
    expect(listed.map(({ name, origin }) => `${name} ${origin}`)).toEqual([
      "Vertrag ü.pdf field",
      "report.txt step",
      "table.csv step",
      "whole.bin step",
    ]);

    const got = await server.request(`/jobs/job-1/files/${hashOf(PDF)}`);
    expect(Buffer.from(await got.arrayBuffer())).toEqual(PDF);
    expect(Object.fromEntries(got.headers)).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": `attachment; filename="Vertrag _.pdf"; filename*=UTF-8''Vertrag%20%C3%BC.pdf`,
      "x-content-type-options": "nosniff",
      "content-security-policy": expect.stringContaining("sandbox"),
      etag: `"${hashOf(PDF)}"`,
    });
    const whole = await server.request(`/jobs/job-1/files/${job.result.whole.sha256}`);
    expect((await whole.arrayBuffer()).byteLength).toBe(5_000_000);
  });

  it("ranges of a file are sent, and none that it does not have", async () => {
    await using server = await open({ agents });
    const { body } = await upload(server, PDF);
    await start(server, "reader", "job-1", { contract: { upload: body.upload } });
    const part = (range: string, more = {}) =>
      server.request(`/jobs/job-1/files/${body.sha256}`, { headers: { range, ...more } });
    const cases: [string, string, string][] = [
      ["bytes=0-3", PDF.subarray(0, 4).toString(), `bytes 0-3/${PDF.length}`],
      ["bytes=5-", PDF.subarray(5).toString(), `bytes 5-${PDF.length - 1}/${PDF.length}`],
      ["bytes=-4", PDF.subarray(-4).toString(), `bytes ${PDF.length - 4}-${PDF.length - 1}/${PDF.length}`],
    ];
    for (const [range, text, header] of cases) {
      const response = await part(range);
      expect([response.status, await response.text(), response.headers.get("content-range")]).toEqual([
        206,
        text,
        header,
      ]);
    }
    expect((await part("bytes=1000-")).status).toBe(416);
    expect((await part("bytes=0-3", { "if-range": '"another"' })).status).toBe(200);
    const same = await server.request(`/jobs/job-1/files/${body.sha256}`, {
      headers: { "if-none-match": `"${body.sha256}"` },
    });
    expect(same.status).toBe(304);
  });

  it("a text is shown up to 1 MiB, and is a download beyond it, which a browser would draw for minutes", async () => {
    await using server = await open({ agents });
    const texts = await Promise.all(
      [1024 * 1024, 1024 * 1024 + 1].map((size) => upload(server, Buffer.alloc(size), "a.txt", "text/plain")),
    );
    const { body } = await upload(server, PDF);
    const more = texts.map((one) => ({ upload: one.body.upload }));
    await start(server, "reader", "job-1", { contract: { upload: body.upload }, more });
    const shown = await Promise.all(
      texts.map((one) => server.request(`/jobs/job-1/files/${one.body.sha256}?inline=true`)),
    );
    expect(shown.map(({ headers }) => headers.get("content-type"))).toEqual([
      "text/plain; charset=utf-8",
      "application/octet-stream",
    ]);
    expect(shown[1]!.headers.get("content-disposition")).toMatch(/^attachment/);
  });

  it("a file that a job does not have does not exist for it, and knowing its hash changes nothing", async () => {
    await using server = await open({ agents });
    const { body } = await upload(server, PDF);
    await start(server, "reader", "job-1", { contract: { upload: body.upload } });
    const other = await upload(server, Buffer.from("%PDF-1.7 another"));
    await start(server, "reader", "job-2", { contract: { upload: other.body.upload } });
    expect((await server.request(`/jobs/job-2/files/${body.sha256}`)).status).toBe(404);
    expect((await server.request(`/jobs/job-9/files/${body.sha256}`)).status).toBe(404);

    const forged = { name: "x.pdf", type: "application/pdf", size: PDF.length, sha256: body.sha256 };
    const refused = await start(server, "reader", "job-3", { contract: forged });
    expect(refused.status).toBe(422);
    await start(server, "forger", "job-4", { given: forged });
    const failed = await waitFor(server, "job-4", "failed");
    expect(JSON.stringify(failed)).not.toContain("the contract");

    // Whether somebody else has sent the same is not to be seen.
    const again = await upload(server, PDF);
    expect([again.response.status, Object.keys(again.body)]).toEqual([201, Object.keys(body)]);
    expect(again.body.upload).not.toBe(body.upload);
  });

  it("what a field does not accept is refused", async () => {
    await using server = await open({ agents, fileLimit: 2000 });
    const wrong = await upload(
      server,
      Buffer.from("<html><script>alert(1)</script>"),
      "a.pdf",
      "application/pdf",
    );
    expect([wrong.response.status, wrong.body.error]).toEqual([
      415,
      'The content of the file "a.pdf" is not application/pdf',
    ]);
    const text = await upload(server, Buffer.from("plain"), "a.txt", "text/plain");
    const large = await upload(server, Buffer.concat([PDF, Buffer.alloc(1500)]));
    for (const { body } of [text, large]) {
      const response = await start(server, "reader", `job-${body.sha256.slice(0, 8)}`, {
        contract: { upload: body.upload },
      });
      expect([response.status, (await response.json()) as object]).toMatchObject([
        422,
        { error_type: "invalid_parameters" },
      ]);
    }
    expect((await upload(server, Buffer.alloc(2001))).response.status).toBe(413);
    const missing = await start(server, "reader", "job-x", { contract: { upload: "nothing" } });
    expect(missing.status).toBe(404);
    const paths = await upload(server, PDF, "../../etc/\u0000\u202epasswd.pdf");
    expect(paths.body).toMatchObject({ name: "passwd.pdf" });
  });

  it("the limits are those that variables or options say", async () => {
    const variables = {
      ...{ SERVICE_FILE_LIMIT: "10", SERVICE_JOB_FILES_LIMIT: "20", SERVICE_WORKSPACE_FILES_LIMIT: "30" },
    };
    expect(resolveOptions({ agents }, variables)).toMatchObject({
      ...{ fileLimit: 10, jobFilesLimit: 20, workspaceFilesLimit: 30 },
    });
    await using server = await open({ agents, jobFilesLimit: 30 });
    const { body } = await upload(server, PDF);
    const more = await upload(server, Buffer.from("%PDF-1.7 some more"));
    const request = { contract: { upload: body.upload }, more: [{ upload: more.body.upload }] };
    expect((await start(server, "reader", "job-1", request)).status).toBe(413);
    expect((await server.request("/jobs/job-1")).status).toBe(404);
  });

  it("a field takes a small content with the request, which is checked as an upload is", async () => {
    await using server = await open({ agents });
    const data = PDF.toString("base64");
    const given = { contract: { name: "../contract.pdf", data } };
    expect((await start(server, "reader", "job-1", given)).status).toBe(202);
    expect((await start(server, "reader", "job-1", given)).status).toBe(202);
    const other = { contract: { name: "other.pdf", data } };
    expect((await start(server, "reader", "job-1", other)).status).toBe(409);
    await waitFor(server, "job-1", "completed");
    const job = (await (await server.request("/jobs/job-1/result")).json()) as { job_fields: object };
    expect(job.job_fields).toMatchObject({ contract: { name: "contract.pdf", type: "application/pdf" } });
    const text = Buffer.from("no contract").toString("base64");
    for (const wrong of [
      { data: "%%%" },
      { data: `${Buffer.from("%PDF-1.7 ").toString("base64")}Q` },
      { data, more: 1 },
      { data: text },
      { data, type: "image/png" },
    ])
      expect([415, 422]).toContain((await start(server, "reader", "job-2", { contract: wrong })).status);
    const validated = await server.request("/agents/reader/validate-method-fields", {
      json: { job_fields: given },
    });
    expect(await validated.json()).toMatchObject({ valid: true });
    // What came with a request is no upload that waits for a day.
    expect(await server.service.get(STORE).table("FileUpload").ids()).toEqual([]);
  });

  it("the same start is answered again, also once its upload has expired", async () => {
    await using server = await open({ agents });
    const { body } = await upload(server, PDF);
    const request = { contract: { upload: body.upload } };
    await start(server, "reader", "job-1", request);
    await waitFor(server, "job-1", "completed");
    expect((await server.request(`/files/${body.upload}`, { method: "DELETE" })).status).toBe(204);
    expect((await start(server, "reader", "job-1", request)).status).toBe(202);
    const other = await upload(server, PDF);
    expect((await start(server, "reader", "job-1", { contract: { upload: other.body.upload } })).status).toBe(
      409,
    );
    expect((await server.request(`/jobs/job-1/files/${body.sha256}`)).status).toBe(200);
  });

  it("an upload that loses its connection continues where it was", async () => {
    await using server = await open({ agents });
    const content = Buffer.concat([PDF, Buffer.alloc(3_000_000, "x")]);
    const begun = await server.request("/files", {
      method: "POST",
      headers: {
        ...{ "tus-resumable": "1.0.0", "upload-length": String(content.length) },
        "upload-metadata": `filename ${Buffer.from("big.pdf").toString("base64")}`,
      },
    });
    expect(begun.status).toBe(201);
    const at = begun.headers.get("location")!;
    const part = { "tus-resumable": "1.0.0", "content-type": "application/offset+octet-stream" };
    await cutAfter(`${server.url}${at}`, content.subarray(0, 1_000_000), {
      ...{ ...part, "upload-offset": "0", "content-length": String(content.length) },
      "x-api-key": server.key,
    });
    let offset = 0;
    await expect
      .poll(async () => {
        const head = await server.request(at, { method: "HEAD" });
        offset = Number(head.headers.get("upload-offset"));
        return offset;
      })
      .toBeGreaterThan(0);
    const wrong = await server.request(at, {
      ...{ method: "PATCH", headers: { ...part, "upload-offset": String(offset + 1) } },
      body: content.subarray(offset + 1) as unknown as Blob,
    });
    expect([wrong.status, wrong.headers.get("upload-offset")]).toEqual([409, String(offset)]);
    const rest = await server.request(at, {
      ...{ method: "PATCH", headers: { ...part, "upload-offset": String(offset) } },
      body: content.subarray(offset) as unknown as Blob,
    });
    expect([rest.status, rest.headers.get("upload-offset")]).toEqual([204, String(content.length)]);
    expect(await (await server.request(at)).json()).toMatchObject({
      ...{ name: "big.pdf", type: "application/pdf", sha256: hashOf(content) },
    });
  });

  it("a job that is deleted permanently leaves no file, one that can be restored keeps its own", async () => {
    await using server = await open({ agents });
    const { body } = await upload(server, PDF);
    await start(server, "reader", "job-1", { contract: { upload: body.upload } });
    await waitFor(server, "job-1", "completed");
    const path = `/jobs/job-1/files/${body.sha256}`;
    await server.request("/admin/api/jobs/job-1", { method: "DELETE" });
    expect((await server.request(path)).status).toBe(404);
    await server.request("/admin/api/jobs/job-1/restore", { method: "POST" });
    expect(await (await server.request(path)).text()).toBe(PDF.toString());
  });
});

/** Sends some bytes of a body, and then cuts the connection. */
function cutAfter(url: string, bytes: Uint8Array, headers: Record<string, string>): Promise<void> {
  return new Promise((resolve) => {
    const request = send(url, { method: "PATCH", headers });
    request.on("error", () => {});
    request.write(bytes, () => {
      setTimeout(() => {
        request.destroy();
        resolve();
      }, 100);
    });
  });
}
