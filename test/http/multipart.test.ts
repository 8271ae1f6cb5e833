import { createHash, randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { type FormFile, readMultipart } from "../../src/core/http/multipart.ts";
import type { HttpEvent } from "../../src/core/http/route.ts";

/** A request whose body arrives in parts of these sizes, in turn. */
function eventOf(body: Uint8Array, type: string, sizes: readonly number[]): HttpEvent {
  async function* parts() {
    for (let at = 0, turn = 0; at < body.length; turn++) {
      const size = sizes[turn % sizes.length]!;
      yield body.subarray(at, at + size);
      at += size;
    }
  }
  const req = { headers: new Headers({ "content-type": type }), body: parts() };
  return { req } as unknown as HttpEvent;
}

interface Received extends Omit<FormFile, "before"> {
  readonly hash: string;
  readonly before: string[];
}

async function read(body: Uint8Array, type: string, sizes: readonly number[] = [65_536]) {
  const files: Received[] = [];
  const form = await readMultipart(eventOf(body, type, sizes), async (file, content) => {
    const hash = createHash("sha256");
    for await (const part of content) hash.update(part);
    files.push({ ...file, before: [...file.before.keys()], hash: hash.digest("hex") });
    return `upload-${files.length}`;
  });
  return { form: [...form], files };
}

async function encoded(form: FormData): Promise<{ body: Uint8Array; type: string }> {
  const response = new Response(form);
  return {
    body: new Uint8Array(await response.arrayBuffer()),
    type: response.headers.get("content-type")!,
  };
}

const hashOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** Bytes with line ends and dashes in them, so that they nearly have the mark. */
function tricky(boundary: string): Uint8Array {
  const near = `\r\n--${boundary.slice(0, -1)}`;
  return Buffer.from(`\r\n--\r\n-${near}\r${near}-\r\n${"\r\n".repeat(50)}${near}--\r`);
}

it("a form is read the same however it arrives", async () => {
  const form = new FormData();
  form.append("note", "grün\r\n--x");
  form.append('na"me\r\n', "");
  const contents = [randomBytes(10_000), new Uint8Array(0), tricky("----formdata-undici-000000000000")];
  for (const [at, bytes] of contents.entries())
    form.append(
      "f.file",
      new Blob([bytes as never], { type: at === 0 ? "image/png" : "" }),
      `ä "${at}" \\.bin`,
    );
  form.append("after", "1");
  const { body, type } = await encoded(form);
  const expected = await read(body, type);
  expect(expected.form).toStrictEqual([
    ["note", "grün\r\n--x"],
    ['na"me\r\n', ""],
    ...contents.map((_, at) => ["f.file", `upload-${at + 1}`]),
    ["after", "1"],
  ]);
  expect(expected.files.map(({ name, hash, type }) => [name, hash, type])).toStrictEqual(
    contents.map((bytes, at) => [
      `ä "${at}" \\.bin`,
      hashOf(bytes),
      at === 0 ? "image/png" : "application/octet-stream",
    ]),
  );
  expect(expected.files[0]!.before).toStrictEqual(["note", 'na"me\r\n']);
  for (let size = 1; size < 90; size++) {
    expect(await read(body, type, [size])).toStrictEqual(expected);
    expect(await read(body, type, [size, 1, 7, 3])).toStrictEqual(expected);
  }
});

it("a field in which no file was chosen has no value", async () => {
  const body = Buffer.from(
    '--b\r\nContent-Disposition: form-data; name="f.file"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--b--\r\nmore',
  );
  expect(await read(body, "multipart/form-data; boundary=b")).toStrictEqual({ form: [], files: [] });
});

const part = (head: string, text = "x") => `--b\r\n${head}\r\n\r\n${text}\r\n`;
const NAMED = 'Content-Disposition: form-data; name="a"';

it.each([
  ["ends early", part(NAMED)],
  ["ends in a file", `${part(`${NAMED}; filename="x"`).slice(0, -3)}`],
  ["has no boundary where it says", "hello"],
  ["has a part without a name", `${part("Content-Type: text/plain")}--b--`],
  ["has a part that is no part of a form", `${part('Content-Disposition: attachment; name="a"')}--b--`],
  ["has a file without a name", `${part(`${NAMED}; filename=""`)}--b--`],
  ["has a boundary inside of a line", `--bx\r\n${NAMED}\r\n\r\nx\r\n--b--`],
  ["has a header without an end", `--b\r\n${"x".repeat(10_000)}`],
  ["has more text than a form may have", `${part(NAMED, "x".repeat(1_100_000))}--b--`],
  ["has more parts than a form may have", `${part(NAMED).repeat(1001)}--b--`],
  ["is not UTF-8", `${part(NAMED, "\xff")}--b--`],
])("a form is refused that %s", async (_, text) => {
  const reading = read(Buffer.from(text, "latin1"), "multipart/form-data; boundary=b");
  await expect(reading).rejects.toMatchObject({ status: 400, type: "invalid_request" });
});
