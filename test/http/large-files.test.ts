// @alone
// @long
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { expect, test } from "vitest";
import { access, beginSvc, project } from "../cli/_svc.ts";

/** Bytes of the file: `SVC_FILE_BYTES=2000000000` by hand. */
const SIZE = Number(process.env.SVC_FILE_BYTES ?? 200_000_000);
/** Bytes that the process may need more than before: far fewer than the file has. */
const MORE = 100 * 1024 * 1024;
const PART = randomBytes(1_000_000);

const CONTROLLER = `
import { createHash } from "node:crypto";
import { createServer, defineAgent, file } from "agent-control-service";
import * as v from "valibot";

const reader = defineAgent({
  name: "Reader", version: "1.0.0",
  methods: { job_start: { fields: v.object({ given: file() }), run: ({ job, fields }) => job.step("read", async ({ file }) => {
    const hash = createHash("sha256");
    for await (const part of job.open(fields.given).stream()) hash.update(part);
    return { sha256: hash.digest("hex"), copy: await file("copy.bin", job.open(fields.given).stream()) };
  }) } },
});
export default createServer({ port: 0, agents: [reader], fileLimit: ${2 * SIZE}, jobFilesLimit: ${4 * SIZE} });
`;

test("a large file is sent, cut off, continued, read, copied and downloaded with flat memory", async () => {
  const folder = await project({ "controller.mjs": CONTROLLER });
  const running = beginSvc(["start", "controller.mjs"], { cwd: folder, env: { SERVICE_PORT: "0" } });
  await running.prints(/http:\/\/127\.0\.0\.1:\d+/);
  const { url, key } = await access(folder);
  const memory = () => {
    const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${running.process.pid}/status`, "utf8"))!;
    return Number(kilobytes) * 1024;
  };
  let most = 0;
  const before = memory();
  const watch = setInterval(() => {
    most = Math.max(most, memory());
  }, 50);
  try {
    const headers = { "x-api-key": key, "tus-resumable": "1.0.0" };
    const begun = await fetch(`${url}/files?name=large.bin`, {
      ...{ method: "POST", headers: { ...headers, "upload-length": String(SIZE) } },
    });
    const { upload } = (await begun.json()) as { upload: string };
    const offset = async () => {
      const head = await fetch(`${url}/files/${upload}`, { method: "HEAD", headers });
      return Number(head.headers.get("upload-offset"));
    };
    const sent = { url: `${url}/files/${upload}`, headers };
    await patch(sent, { from: 0, to: SIZE, cutAt: SIZE / 2 });
    await expect.poll(offset, { timeout: 60_000 }).toBeGreaterThan(SIZE / 4);
    // What the cut request has in hand may still arrive.
    let from = await offset();
    for (let known = -1; known !== from; from = await offset()) {
      known = from;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect(from).toBeLessThan(SIZE);
    expect(await patch(sent, { from, to: SIZE })).toBe(204);

    const wanted = createHash("sha256");
    for (let at = 0; at < SIZE; at += PART.length) wanted.update(PART.subarray(0, SIZE - at));
    const sha256 = wanted.digest("hex");
    const start = await fetch(`${url}/agents/reader/jobs`, {
      ...{ method: "POST", headers: { ...headers, "content-type": "application/json" } },
      body: JSON.stringify({ job_context: { job_id: "job-1" }, job_fields: { given: { upload } } }),
    });
    expect(start.status).toBe(202);
    const result = await fetch(`${url}/jobs/job-1/result`, { headers: { ...headers, prefer: "wait=60" } });
    expect(await result.json()).toMatchObject({
      ...{ status: "completed", result: { sha256, copy: { sha256, size: SIZE } } },
    });
    const got = createHash("sha256");
    const download = await fetch(`${url}/jobs/job-1/files/${sha256}`, { headers });
    for await (const part of download.body!) got.update(part);
    expect(got.digest("hex")).toBe(sha256);
  } finally {
    clearInterval(watch);
  }
  console.log(`${SIZE} bytes: ${Math.round((most - before) / 1024 / 1024)} MiB more than before`);
  expect(most - before).toBeLessThan(MORE);
}, 600_000);

/** Sends bytes of the file from an offset on; where it is cut off, only the beginning of them. */
function patch(
  { url, headers }: { readonly url: string; readonly headers: Record<string, string> },
  { from, to, cutAt = to }: { readonly from: number; readonly to: number; readonly cutAt?: number },
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      {
        method: "PATCH",
        headers: {
          ...{ ...headers, "upload-offset": String(from), "content-length": String(to - from) },
          "content-type": "application/offset+octet-stream",
        },
      },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    );
    sent.on("error", (error) => (cutAt < to ? resolve(undefined) : reject(error)));
    let at = from;
    const next = (): void => {
      while (at < cutAt) {
        const begin = at % PART.length;
        const bytes = PART.subarray(begin, Math.min(PART.length, begin + cutAt - at));
        at += bytes.length;
        if (!sent.write(bytes)) {
          sent.once("drain", next);
          return;
        }
      }
      if (cutAt < to) sent.destroy();
      else sent.end();
    };
    next();
  });
}
