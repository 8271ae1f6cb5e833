import { describe, expect, it } from "vitest";
import { affectedBy } from "./_affected.ts";
import { testFiles } from "./_files.ts";

const files = testFiles();
const all = files.map(({ path }) => path);
const concerned = (...changed: string[]) => {
  const paths = affectedBy(changed, files);
  return (folder: string) => paths.filter((path) => path.startsWith(`test/${folder}`)).length;
};
const how = (folder: string) => all.filter((path) => path.startsWith(`test/${folder}`)).length;

describe("the tests that a change concerns", () => {
  it.each([
    "src/core/base/retry-after.ts",
    "package.json",
    "vitest.config.ts",
    ".ci/run",
    "areas/core.json",
    "an/unknown/file",
  ])("are all where %s changed", (path) => {
    expect(affectedBy([path], files)).toEqual(all);
  });

  it.each([
    {
      changed: "src/core/runs/index.ts",
      all: ["runs/", "http/", "deploy/", "admin/", "cli/", "instances/", "on-postgres", "gate/"],
      none: ["storage/"],
    },
    {
      changed: "src/plugins/admin/index.ts",
      all: ["admin/", "package", "gate/"],
      none: ["storage/", "deploy/network", "instances/job-cost", "on-postgres"],
    },
    { changed: "src/templates/public/admin/live.js", all: ["admin/"], none: ["storage/", "deploy/network"] },
    {
      changed: "src/deploy/plan.ts",
      all: ["deploy/", "platforms/", "cli/"],
      none: ["storage/", "runs/kill", "gate/", "on-postgres"],
    },
    {
      changed: "docs/store.md",
      all: ["words", "examples"],
      none: ["runs/kill", "platforms/locks", "cli/job"],
    },
  ])("are those of its area and of the areas above it: $changed", ({ changed, all, none }) => {
    const count = concerned(changed);
    for (const folder of all) expect([folder, count(folder)]).toEqual([folder, how(folder)]);
    for (const folder of none) expect([folder, count(folder)]).toEqual([folder, 0]);
  });

  it("cannot be known where a test names an area that is none", () => {
    const [test] = files;
    expect(() => affectedBy(["src/deploy/plan.ts"], [{ ...test!, areas: ["cor"] }])).toThrow(
      "A test names the area cor, which is none of areas/*.json",
    );
  });

  it("are those that import a changed helper, whatever their folder is", () => {
    expect(affectedBy(["test/storage/s3-server.ts"], files)).toContain("test/platforms/bucket-store.test.ts");
    expect(affectedBy(["test/runs/kill.test.ts"], files)).toEqual(["test/runs/kill.test.ts"]);
    expect(affectedBy(["bench/runs.ts"], files)).toEqual([]);
  });
});
