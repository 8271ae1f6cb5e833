import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cachedTransform } from "../../src/cli/transform-cache.ts";
import { project } from "./_svc.ts";

/** A project, and a transform whose calls are counted; each use of it is that of another command. */
async function setUp() {
  const cwd = await project({ "src/controller.ts": "" });
  const cache = join(cwd, "node_modules/.cache/agent-control-service");
  const calls: string[] = [];
  const plain = ({ source }: { source: string }) => {
    calls.push(source);
    return source === "{" ? "exports.__JITI_ERROR__ = {}" : `// transformed ${source}`;
  };
  return {
    cwd,
    cache,
    calls,
    kept: () => readdirSync(cache).map((name) => join(cache, name)),
    transform: (source: string, filename = "controller.ts", folder = join(cwd, "src")) =>
      cachedTransform(folder, plain)({ source, filename: join(folder, filename), ts: true }),
  };
}

describe("the transformed files of a project", () => {
  it("are stored with its packages, and used by the next command", async () => {
    const { calls, kept, transform } = await setUp();

    const results = [transform("a"), transform("a"), transform("a", "other.ts")];

    expect(results).toEqual(["// transformed a", "// transformed a", "// transformed a"]);
    expect(calls).toEqual(["a", "a"]);
    expect(kept()).toHaveLength(2);
  });

  it("are regenerated when the file changes, and replace the old ones", async () => {
    const { kept, transform } = await setUp();

    expect([transform("a"), transform("b"), transform("a")]).toEqual([
      "// transformed a",
      "// transformed b",
      "// transformed a",
    ]);
    expect(kept()).toHaveLength(1);
  });

  it("are regenerated if one is truncated", async () => {
    const { calls, kept, transform } = await setUp();
    transform("a");
    const [file = ""] = kept();
    const { length } = readFileSync(file);

    for (let size = 0; size < length; size++) {
      truncateSync(file, size);
      expect(transform("a")).toBe("// transformed a");
    }

    expect(calls).toHaveLength(1 + length);
  });

  it("are not stored for a file with an error, nor if there is no space", async () => {
    const { cache, calls, kept, transform } = await setUp();
    transform("a");

    transform("{");
    transform("{");
    expect(kept().map((file) => readFileSync(file, "utf8").includes("JITI"))).toEqual([false]);
    rmSync(cache, { recursive: true });
    writeFileSync(cache, "not a folder");
    expect([transform("a"), transform("a")]).toEqual(["// transformed a", "// transformed a"]);

    expect(calls).toEqual(["a", "{", "{", "a", "a"]);
  });

  it("are not stored outside of a project with packages", async () => {
    const { calls, transform } = await setUp();

    transform("a", "controller.ts", "/nowhere/src");
    transform("a", "controller.ts", "/nowhere/src");

    expect(calls).toEqual(["a", "a"]);
  });
});
