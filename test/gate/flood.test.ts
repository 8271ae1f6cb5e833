// @long
// @area service admin protocols
import { afterAll, beforeAll, expect, it } from "vitest";
import { shareOf } from "../_share.ts";
import { fillBlindly } from "./_examples.ts";
import { flood } from "./_flood.ts";
import { openWorld, type World } from "./_world.ts";

const MEGABYTES = 128;
/** Bytes of network buffers that may wait for the garbage collector. */
const WAITING = 80e6;

/** Bodies that are read while they arrive: what they lack is refused first, or what they are for. */
const REFUSED: Readonly<Record<string, number>> = {
  "PATCH /files/{upload}": 400,
  "PATCH /jobs/{id}/uploads/{upload}": 400,
  "POST /jobs/{id}/uploads": 404,
  "POST /v1/files": 400,
};

let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

it.each(shareOf(["nobody", "the key"], 2))(
  "a body of 128 MB without a length, sent by %s to every route, uses no memory",
  async (who) => {
    const port = Number(new URL(world.url).port);
    const headers: Record<string, string> = who === "nobody" ? {} : { "x-api-key": world.key };
    const problems: string[] = [];

    for (const route of world.routes) {
      const { method, path, type = "application/octet-stream" } = fillBlindly(route);
      const before = process.memoryUsage().arrayBuffers;
      let most = before;
      const look = (): void => {
        most = Math.max(most, process.memoryUsage().arrayBuffers);
      };
      const { status } = await flood(port, { method, path, type, headers, megabytes: MEGABYTES, look });
      const refused = route.streamsBody ? (REFUSED[`${method} ${route.path}`] ?? 413) : 413;
      const expected = who === "nobody" && route.auth !== "none" ? 401 : refused;
      // Who is cut off while it sends may never get to read its answer.
      if (status !== expected && status !== 0) problems.push(`${method} ${path}: answered ${status}`);
      if (most - before > WAITING) problems.push(`${method} ${path}: held ${(most - before) / 1e6} MB`);
    }

    expect(problems).toEqual([]);
  },
  300_000,
);
