import { expect, it } from "vitest";
import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { scanLines } from "../../src/core/store/json/scan-lines.ts";

const MIB = 1024 * 1024;
const LINES = ["head", "", "a".repeat(5 * MIB), "b", `${"c".repeat(2 * MIB - 9)}é`, "d"];

it.each([
  ["whole reads", 16 * MIB],
  ["short reads", 300_000],
])("finds every line and its position with %s", async (_, most) => {
  const content = Buffer.from(LINES.join("\n"));

  const found = await linesOf(content, { most });

  expect(found.map(({ text }) => text)).toEqual(LINES);
  expect(found.map(({ complete }) => complete)).toEqual([true, true, true, true, true, false]);
  for (const { text, position } of found) {
    expect(content.toString("utf8", position, position + Buffer.byteLength(text))).toBe(text);
  }
});

it("reads no further than requested, and no more once it is stopped", async () => {
  const content = Buffer.from("one\ntwo\nthree\n");

  expect((await linesOf(content, { size: 9 })).map(({ text }) => text)).toEqual(["one", "two", "t"]);
  expect((await linesOf(content, { until: "two" })).map(({ text }) => text)).toEqual(["one", "two"]);
  expect(await linesOf(Buffer.alloc(0), {})).toEqual([]);
});

it("waits for a pending read before it fails", async () => {
  let underWay = 0;
  const content = Buffer.alloc(5 * MIB, "x\n");
  const io = ioOf(content, 16 * MIB, (change) => {
    underWay += change;
  });

  const scan = scanLines(io, { file: 1, size: content.length }, () => {
    throw new Error("enough");
  });

  await expect(scan).rejects.toThrow("enough");
  expect(underWay).toBe(0);
});

interface Found {
  readonly text: string;
  readonly position: number;
  readonly complete: boolean;
}

async function linesOf(
  content: Buffer,
  { most = 16 * MIB, size = content.length, until }: { most?: number; size?: number; until?: string },
): Promise<Found[]> {
  const found: Found[] = [];
  await scanLines(ioOf(content, most), { file: 1, size }, ({ bytes, position, complete }) => {
    found.push({ text: bytes.toString(), position, complete });
    return found.at(-1)?.text !== until;
  });
  return found;
}

/** A file in memory that gives at most so many bytes at a time. */
function ioOf(content: Buffer, most: number, count: (change: number) => void = () => {}): StoreIo {
  const read: StoreIo["read"] = async (_, into, position) => {
    count(1);
    await new Promise((resolve) => setImmediate(resolve));
    count(-1);
    return content.copy(into, 0, position, Math.min(position + into.length, position + most));
  };
  return { read } as Partial<StoreIo> as StoreIo;
}
